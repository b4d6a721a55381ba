-- Move claimed messages to the dead-letter queue of their queue.  Returns false when that does not exist any more.
create or replace function pgqs_data.redrive(p_queue pgqs_data.queue, p_token text, p_messages pgqs_data.message[]) returns boolean
language plpgsql as $$
declare
    v_target  pgqs_data.queue := pgqs_data.queue_named(pgqs_data.engine_queue_of_arn(p_queue.redrive_target));
    v_headers jsonb[];
begin
    if v_target.id is null then
        return false;
    end if;
    -- It keeps its id, its first receive and its count; the receive that came too late does not count.
    v_headers := array(
        select coalesce(m.headers, '{}') || jsonb_build_object('sqs', coalesce(m.headers -> 'sqs', '{}') || jsonb_strip_nulls(jsonb_build_object(
            'id', coalesce(m.headers -> 'sqs' ->> 'id', pgqs_data.message_uuid(p_queue.system_id, m.id)),
            'source', pgqs_data.arn(p_queue.account, p_queue.region, p_queue.name),
            'count', m.attempt - 1 + coalesce((m.headers -> 'sqs' ->> 'count')::int, 0),
            'first', coalesce(m.headers -> 'sqs' ->> 'first',
                pgqs_data.milliseconds(coalesce(pgqs_data.first_claim(p_queue.id, p_token, m.id), m.claimed_at))),
            'dedup', case when v_target.fifo then coalesce(m.headers -> 'sqs' ->> 'id', pgqs_data.message_uuid(p_queue.system_id, m.id)) end)))
        from unnest(p_messages) m);
    perform pgqs_data.take_out(p_queue.id, p_token, array(select m.id from unnest(p_messages) m), 'moved to ' || p_queue.redrive_target);
    perform pgqs_data.put_into(v_target, p_messages, v_headers, true);
    return true;
end
$$;

-- Messages that this transaction has claimed leave their queue for another one.  Under the queue's lock, so what stood
-- behind them can follow at once.
create or replace function pgqs_data.take_out(p_queue_id bigint, p_token text, p_ids bigint[], p_reason text) returns void
language plpgsql as $$
declare
    v_now   timestamptz := penstock_data.clock();
    v_claim penstock_data.claims;
begin
    for v_claim in select * from penstock_data.unclaim(p_queue_id, p_token, p_ids, '-infinity') loop
        insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids, attempts, error)
        select p_queue_id, v_claim.claimed_at, v_now, s.receipt_segment, 'acked', v_claim.token, v_claim.message_ids, v_claim.attempts, p_reason
        from penstock_data.settings s;
        if v_claim.lanes is not null and (select q.ordering = 'fifo' from penstock_data.queues q where q.id = p_queue_id) then
            perform penstock_data.finish_in_lanes(p_queue_id, v_claim.message_ids, v_claim.lanes, v_now);
        end if;
    end loop;
end
$$;

-- Put messages of another queue into this queue, and into no other.  A standard queue counts their age from the first
-- sending (when p_keep_age), a FIFO queue from now.
create or replace function pgqs_data.put_into(p_queue pgqs_data.queue, p_messages pgqs_data.message[], p_headers jsonb[], p_keep_age boolean)
returns void
language plpgsql as $$
begin
    if p_queue.fifo and p_queue.topic_name = p_queue.engine_name then
        -- By way of the log, so that the lock of another queue need not be had.
        perform pgqs_data.lock_senders(p_queue);
        perform count(*) from penstock.publish_messages(p_queue.topic_name, array(select m.payload from unnest(p_messages) m),
            headers => p_headers, keys => array(select m.key from unnest(p_messages) m));
    else
        perform penstock_data.deliver(p_queue.id, array(select m.payload from unnest(p_messages) m), p_headers,
            array(select m.key from unnest(p_messages) m), null,
            case when p_keep_age and not p_queue.fifo then array(select m.published_at from unnest(p_messages) m) end);
    end if;
end
$$;
