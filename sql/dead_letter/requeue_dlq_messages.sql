-- Put dead letters back into their queue, all of them or those named, with their attempts counted anew.  Their time
-- begins anew as well: what expires does so after as long as it had at first (at least a minute), and the queue's
-- retention counts from now.  In a fifo queue they go to the end of their lane.  Returns how many.  Locks: the queue's
-- claim lock.
-- Errors: PS002 unknown queue, PS014 an id that is no dead letter of the queue.
-- Roles: admin
create or replace function penstock.requeue_dlq_messages(queue_name text, message_ids bigint[] default null) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
    v_now      timestamptz;
    v_entries  penstock_data.entry[];
begin
    perform penstock_data.check_queue(queue_name);
    select * into v_queue from penstock_data.queues q where q.name = requeue_dlq_messages.queue_name;
    perform penstock_data.lock_queue(requeue_dlq_messages.queue_name);
    v_now := penstock_data.clock();
    perform penstock_data.keep_maintenance_out(v_queue);
    perform penstock_data.check_dead_letters(v_queue, requeue_dlq_messages.message_ids);
    select * into v_position from penstock_data.position_of(v_queue.id);
    if current_setting('transaction_isolation') <> 'read committed' then
        v_position := penstock_data.guard_position(v_position);
    end if;

    with gone as (
        delete from penstock_data.dead_letters d
        where d.queue_id = v_queue.id
          and (requeue_dlq_messages.message_ids is null or d.message_id = any (requeue_dlq_messages.message_ids))
        returning d.*
    ), renewed as materialized (
        select g.*, least(penstock_data.renewed_expiry(g.expires_at, g.published_at, v_now), v_now + v_queue.retention) as lapses_at
        from gone g
    ), renewals as (
        insert into penstock_data.renewals (queue_id, message_id, lapses_at)
        select v_queue.id, r.message_id, r.lapses_at from renewed r where r.lapses_at is not null
        on conflict (queue_id, message_id) do update set lapses_at = excluded.lapses_at
    ), kept as (
        -- The log may have forgotten the message: the dead letter has all of it.
        insert into penstock_data.messages (
            xid, id, topic_id, published_at, segment, priority, expires_at, key, correlation_id, tenant_id, payload, headers)
        select '3', g.message_id, v_queue.topic_id, g.published_at, 0, g.priority, g.expires_at, g.key, g.correlation_id,
            g.tenant_id, g.payload, g.headers
        from gone g
        where not exists (select from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = g.message_id)
    )
    select array_agg((r.message_id, r.key, r.priority, v_now, r.history,
        case when r.expires_at is not null then r.lapses_at end)::penstock_data.entry order by r.id)
    into v_entries
    from renewed r;
    if v_entries is null then
        return 0;
    end if;

    v_position := penstock_data.with_levels(v_position, array(select distinct e.priority from unnest(v_entries) e));
    perform penstock_data.place(v_queue, v_position, v_entries, v_now);
    v_position.attend_at := v_now;
    perform penstock_data.append_position(v_position);
    perform penstock_data.wake_queue(v_queue.id, v_entries[1].message_id);
    return cardinality(v_entries);
end
$$;
comment on function penstock.requeue_dlq_messages(text, bigint[]) is 'Put dead letters back into their queue; returns how many.';
