-- Change when one message becomes visible again.  Returns {} or {"__error": …}.
create or replace function pgqs_data.change_one_visibility(p_queue pgqs_data.queue, p_handle text, p_seconds text) returns jsonb
language plpgsql as $$
declare
    v_parts   text[] := pgqs_data.handle_parts(p_queue.id, p_handle);
    v_outcome text;
    v_error   jsonb;
begin
    if p_seconds is null then
        v_error := pgqs_data.error('MissingRequiredParameterException', 'The request must contain the parameter VisibilityTimeout.');
    elsif p_seconds !~ '^\d{1,9}$' or p_seconds::int > 43200 then
        v_error := pgqs_data.invalid_value(left(p_seconds, 100), 'VisibilityTimeout', 'Must be >= 0 and <= 43200, if provided.');
    elsif v_parts is null then
        v_error := pgqs_data.bad_handle(p_handle);
    else
        v_outcome := pgqs_data.set_visibility(p_queue, v_parts[1]::bigint, v_parts[2]::int, v_parts[3], p_seconds::int);
        v_error := case v_outcome
            when 'beyond' then pgqs_data.invalid_value(p_seconds, 'VisibilityTimeout',
                'Total VisibilityTimeout for the message is beyond the limit [43200 seconds].')
            when 'visible' then pgqs_data.error('MessageNotInflight', 'The message referred to isn''t in flight.')
            when 'gone' then pgqs_data.invalid_value(p_handle, 'ReceiptHandle',
                'Message does not exist or is not available for visibility timeout change.')
        end;
    end if;
    return case when v_error is null then '{}' else jsonb_build_object('__error', v_error) end;
end
$$;

-- Returns 'changed', 'beyond' (twelve hours), 'visible' (in the queue again, and not by the end of this very claim) or
-- 'gone'.  In a standard queue an old handle still works.  Locks: the message's claim.
create or replace function pgqs_data.set_visibility(p_queue pgqs_data.queue, p_id bigint, p_attempt int, p_token text, p_seconds int) returns text
language plpgsql as $$
declare
    v_outcome text := (select d.outcome from penstock_data.set_deadline(p_queue.id, p_token, array[p_id], p_seconds, interval '12 hours') d);
    v_token   text;
begin
    if v_outcome is not null then
        return v_outcome;
    end if;
    loop
        -- Claims that have ended but were not taken back yet are in the schedule from now on.
        perform penstock_data.take_back(p_queue.id, '-infinity', penstock_data.clock());
        select c.token into v_token from penstock_data.claims c where c.queue_id = p_queue.id and c.token <> '' and p_id = any (c.message_ids) limit 1;
        exit when v_token is null or p_queue.fifo;
        v_outcome := (select d.outcome from penstock_data.set_deadline(p_queue.id, v_token, array[p_id], p_seconds, interval '12 hours') d);
        if v_outcome is not null then
            return v_outcome;
        end if;
        -- Another transaction is about to take the message back or has just finished it: wait for its end, and look
        -- again.
        perform from penstock_data.claims c where c.queue_id = p_queue.id and c.token = v_token and p_id = any (c.message_ids) for update;
    end loop;
    if v_token is null and penstock_data.whereabouts(p_queue.id, p_id) is null then
        return 'gone';
    elsif not p_queue.fifo and p_seconds > 0 and penstock_data.reclaim(p_queue.id, p_id, p_attempt, p_token, p_seconds)
          or not p_queue.fifo and p_seconds = 0 and v_token is null then
        return 'changed';
    end if;
    return 'visible';
end
$$;

-- Change when messages of one queue become visible again.  Returns {} or {"__error": …} for each, as
-- JSON text.
create or replace function pgqs_data.change_visibilities(p_queue pgqs_data.queue, p_handles text[], p_seconds text[]) returns text[]
language plpgsql as $$
begin
    return array(
        select pgqs_data.change_one_visibility(p_queue, u.handle, u.seconds)::text
        from unnest(p_handles, p_seconds) with ordinality as u(handle, seconds, place) order by u.place);
end
$$;
