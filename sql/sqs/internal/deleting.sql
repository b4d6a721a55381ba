-- Finish messages by the tokens of their claims; null tokens are passed over.  Returns the ids that were held.
create or replace function pgqs_data.ack_many(p_queue pgqs_data.queue, p_ids bigint[], p_tokens text[]) returns bigint[]
language plpgsql as $$
declare
    v_done  bigint[] := '{}';
    v_token text;
    v_mine  bigint[];
begin
    -- Claims of one message each end in one statement: those of as many receives, or of receives that shared a claim.
    if p_tokens[1] is distinct from p_tokens[cardinality(p_tokens)] or exists (
        select from penstock_data.claims c
        where c.queue_id = p_queue.id and c.token = p_tokens[1] and c.first_id = p_ids[1] and cardinality(c.message_ids) = 1
    ) then
        v_done := penstock_data.ack_singles(p_queue.engine_name, p_ids, p_tokens);
        if cardinality(v_done) = cardinality(p_ids) then
            return v_done;
        end if;
    end if;
    -- As claims are kept, in the order of ids: a batch that is deleted as it was received is found by its key.
    for v_token, v_mine in
        select u.token, array_agg(distinct u.id order by u.id) from unnest(p_ids, p_tokens) as u(id, token)
        where u.token is not null and u.id <> all (v_done) group by u.token
    loop
        v_done := v_done || array(select penstock.ack_messages(p_queue.engine_name, v_mine, v_token));
    end loop;
    return v_done;
end
$$;

-- Delete messages of one queue by their receipt handles.  Returns {} or {"__error": …} for each.
create or replace function pgqs_data.delete(p_queue pgqs_data.queue, p_handles text[]) returns jsonb[]
language plpgsql as $$
declare
    v_ids    bigint[];
    v_tokens text[];
    v_done   bigint[] := '{}';
begin
    select array_agg(h.parts[1]::bigint), array_agg(h.parts[3]) into v_ids, v_tokens
    from unnest(p_handles) as u(handle) cross join lateral (select pgqs_data.handle_parts(p_queue.id, u.handle) as parts) h;

    if cardinality(p_handles) = 1 then
        if penstock.ack_message(p_queue.engine_name, v_ids[1], v_tokens[1]) then
            return array['{}'::jsonb];
        end if;
    else
        v_done := pgqs_data.ack_many(p_queue, v_ids, v_tokens);
    end if;
    return array(
        select case
            when u.handle = '' then jsonb_build_object('__error', pgqs_data.error('MissingRequiredParameterException',
                'The request must contain the parameter ReceiptHandle.'))
            when u.id is null then jsonb_build_object('__error', pgqs_data.bad_handle(u.handle))
            when u.id = any (v_done) then '{}'
            else pgqs_data.delete_late(p_queue, u.handle, u.id) end
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
