-- Finish messages by the tokens of their claims; null tokens are passed over.  Returns the ids that were held.
create or replace function pgqs_data.ack_many(p_queue pgqs_data.queue, p_ids bigint[], p_tokens text[]) returns bigint[]
language plpgsql as $$
declare
    v_done  bigint[] := penstock_data.ack_claims(p_queue.engine_name, p_ids, p_tokens);
    v_token text;
    v_mine  bigint[];
begin
    if cardinality(v_done) = cardinality(p_ids) then
        return v_done;
    end if;
    for v_token, v_mine in
        select u.token, array_agg(distinct u.id order by u.id) from unnest(p_ids, p_tokens) as u(id, token)
        where u.token is not null and u.id <> all (v_done) group by u.token
    loop
        v_done := v_done || array(select penstock.ack_messages(p_queue.engine_name, v_mine, v_token));
    end loop;
    return v_done;
end
$$;

-- Delete messages of one queue by their receipt handles.  Returns {} or {"__error": …} for each, as JSON text.
create or replace function pgqs_data.delete_all(p_queue pgqs_data.queue, p_handles text[]) returns text[]
language plpgsql as $$
declare
    v_ids    bigint[];
    v_tokens text[];
    v_done   bigint[] := '{}';
begin
    -- As pgqs_data.handle_parts, once for all of them.
    select array_agg(case when h.good then h.parts[2]::bigint end), array_agg(case when h.good then h.parts[4] end) into v_ids, v_tokens
    from (
        select h.parts, coalesce(cardinality(h.parts) = 4 and h.parts[1] = p_queue.id::text and length(h.parts[2]) between 1 and 18
            and length(h.parts[3]) between 1 and 9 and length(h.parts[4]) = 32
            and translate(h.parts[2] || h.parts[3], '0123456789', '') = '', false) as good
        from (select string_to_array(translate(h, E' \t\r\n', ''), '-') as parts from unnest(p_handles) h offset 0) h
        offset 0) h;

    if cardinality(p_handles) = 1 then
        if penstock.ack_message(p_queue.engine_name, v_ids[1], v_tokens[1]) then
            return '{"{}"}';
        end if;
    else
        v_done := pgqs_data.ack_many(p_queue, v_ids, v_tokens);
        if v_ids <@ v_done then
            return array_fill('{}'::text, array[cardinality(v_ids)]);
        end if;
    end if;
    return array(
        select case
            when u.handle = '' then jsonb_build_object('__error', pgqs_data.error('MissingRequiredParameterException',
                'The request must contain the parameter ReceiptHandle.'))
            when u.id is null then jsonb_build_object('__error', pgqs_data.bad_handle(u.handle))
            when u.id = any (v_done) then '{}'
            else pgqs_data.delete_late(p_queue, u.handle, u.id) end::text
        from unnest(p_handles, v_ids) with ordinality as u(handle, id, place) order by u.place);
end
$$;

-- Delete a message whose claim has ended.  A standard queue lets it happen, a FIFO queue only when the message is gone.
create or replace function pgqs_data.delete_late(p_queue pgqs_data.queue, p_handle text, p_id bigint) returns jsonb
language plpgsql as $$
begin
    if not p_queue.fifo then
        perform penstock_data.finish_message(p_queue.id, p_id);
    elsif penstock_data.whereabouts(p_queue.id, p_id) is not null then
        return jsonb_build_object('__error', pgqs_data.invalid_value(p_handle, 'ReceiptHandle', 'The receipt handle has expired.'));
    end if;
    return '{}';
end
$$;
