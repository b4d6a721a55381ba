-- Move claimed messages to the dead-letter queue of their queue.  Returns false when that does not exist any more.
create or replace function pgqs_data.redrive(p_queue pgqs_data.queue, p_token text, p_messages pgqs_data.message[]) returns boolean
language plpgsql as $$
declare
    v_target pgqs_data.queue := pgqs_data.queue_named(pgqs_data.engine_queue_of_arn(p_queue.redrive_target));
    v_system uuid := (select s.id from pgqs_data.system s);
    v_arn    text := pgqs_data.arn(p_queue.account, p_queue.region, p_queue.name);
begin
    if v_target.id is null then
        return false;
    end if;
    p_messages := pgqs_data.with_first_claims(p_queue.id, p_token, p_messages);
    perform pgqs_data.take_out(p_queue.id, p_token, array(select m.id from unnest(p_messages) m), 'moved to ' || p_queue.redrive_target);
    perform pgqs_data.put_into(v_target, p_messages, array(
        -- It keeps its id, its first receive and its count; the receive that came too late does not count.
        select coalesce(m.headers, '{}') || jsonb_build_object('sqs', coalesce(m.headers -> 'sqs', '{}') || jsonb_strip_nulls(jsonb_build_object(
            'id', coalesce(m.headers -> 'sqs' ->> 'id', pgqs_data.message_uuid(v_system, m.id)),
            'source', v_arn,
            'count', m.attempt - 1 + coalesce((m.headers -> 'sqs' ->> 'count')::int, 0),
            'first', coalesce(m.headers -> 'sqs' ->> 'first', pgqs_data.milliseconds(m.first_at)),
            'dedup', case when v_target.fifo then coalesce(m.headers -> 'sqs' ->> 'id', pgqs_data.message_uuid(v_system, m.id)) end)))
        from unnest(p_messages) m), true);
    return true;
end
$$;

-- Claimed messages leave a queue for another one.
create or replace function pgqs_data.take_out(p_queue_id bigint, p_token text, p_ids bigint[], p_reason text) returns void
language sql as $$
    insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids, attempts, lanes, error)
    select p_queue_id, c.claimed_at, penstock_data.clock(), s.receipt_segment, 'acked', c.token, c.message_ids, c.attempts, c.lanes, p_reason
    from penstock_data.unclaim(p_queue_id, p_token, p_ids, '-infinity') c cross join penstock_data.settings s
$$;

-- Messages of another queue enter this one, and nobody else's.  A standard queue counts their age from the first sending
-- (when p_keep_age), a FIFO queue from now.
create or replace function pgqs_data.put_into(p_queue pgqs_data.queue, p_messages pgqs_data.message[], p_headers jsonb[], p_keep_age boolean)
returns void
language plpgsql as $$
begin
    if p_queue.fifo and p_queue.topic_name = p_queue.engine_name then
        -- By way of the log, so that the lock of another queue need not be had.
        perform pg_advisory_xact_lock(1346719320, hashtext(p_queue.engine_name));
        perform count(*) from penstock.publish_messages(p_queue.topic_name, array(select m.payload from unnest(p_messages) m),
            headers => p_headers, keys => array(select m.key from unnest(p_messages) m));
    else
        perform penstock_data.deliver(p_queue.id, array(select m.payload from unnest(p_messages) m), p_headers,
            array(select m.key from unnest(p_messages) m), null,
            case when p_keep_age and not p_queue.fifo then array(select m.published_at from unnest(p_messages) m) end);
    end if;
end
$$;
