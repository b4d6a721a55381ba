-- Look at a queue's messages without claiming them, in the order of their ids, a page at a time.
-- state as in message_state.  visible_at: since or until when it is due, or when its claim ends.  blocked_by: the
-- message that holds it up, its state and token, and until when.
-- Roles: consumer, admin
create or replace function penstock.browse_messages(queue_name text, after bigint default 0, page_size int default 100)
returns table (
    message_id bigint, state text, payload jsonb, headers jsonb, key text, priority int, delivery_attempts int,
    visible_at timestamptz, published_at timestamptz, correlation_id text, tenant_id text,
    blocked_by bigint, blocked_by_state text, blocked_by_token text, blocked_until timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue_id bigint := penstock_data.queue_id(queue_name);
    v_topic_id bigint := (select q.topic_id from penstock_data.queues q where q.id = v_queue_id);
    v_after    bigint := coalesce(after, 0);
begin
    perform penstock_data.check_range('page_size', page_size, 1, 10000);
    return query
    select m.id, p.state, m.payload, m.headers, m.key, m.priority, p.attempt, p.visible_at, m.published_at, m.correlation_id, m.tenant_id,
        p.blocked_by, p.blocked_by_state, p.blocked_by_token, p.blocked_until
    from (
        select w.message_id, w.state, w.attempt, w.due_at as visible_at, w.blocked_by, w.blocked_by_state, w.blocked_by_token, w.blocked_until
        from penstock_data.pending_messages(v_queue_id, v_after, 9223372036854775807, page_size) w
        union all
        (select c.message_id, 'claimed', c.attempt, c.deadline, null, null, null, null from penstock_data.claimed_messages(v_queue_id) c
        where c.message_id > v_after order by c.message_id limit page_size)
    ) p
    -- One look-up each: a join might read the whole topic, when the plan was made while the log was small.
    cross join lateral (
        select * from penstock_data.messages m where m.topic_id = v_topic_id and m.id = p.message_id limit 1) m
    order by m.id
    limit page_size;
end
$$;
comment on function penstock.browse_messages(text, bigint, int) is 'Look at the messages of a queue without claiming them.';
