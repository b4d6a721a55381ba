-- Move messages that wait in a queue to another topic, in the order in which they would be claimed, `most` at a time.
-- They are published there and done here, in one transaction; their headers keep the first id (penstock-original-id)
-- and the queue they left (penstock-moved-from).  Claimed and delayed messages stay, and a paused queue gives out
-- none.  Returns how many were moved: 0 when none is left.  Locks: the queue's claim lock.
-- Errors: PS001, PS002, PS005 the queue's own topic, PS009, PS013, PS018 another transaction holds the queue.
-- Roles: admin
create or replace function penstock.move_messages(queue_name text, topic_name text, most int default 1000) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_token text := 'move-' || gen_random_uuid();
    v_now   timestamptz := penstock_data.clock();
    v_taken record;
begin
    perform penstock_data.check_move(move_messages.queue_name, move_messages.topic_name, most);
    -- First and alone, so that the claim below has its turn, and no rows mean that none is left, unless slices are
    -- locked.
    if not penstock_data.await_lone_turn(move_messages.queue_name) then
        perform penstock_data.fail('PS018', format('queue %L is busy: another claim holds it', move_messages.queue_name));
    end if;
    select
        array_agg(c.message_id order by c.place) as ids, array_agg(c.payload order by c.place) as payloads,
        array_agg(penstock_data.moved_headers(c.headers, move_messages.queue_name, c.message_id) order by c.place) as headers,
        array_agg(c.key order by c.place) as keys, array_agg(c.priority order by c.place) as priorities,
        array_agg(c.correlation_id order by c.place) as correlations, array_agg(c.tenant_id order by c.place) as tenants
    into v_taken
    from penstock.consume_messages_batch(move_messages.queue_name, v_token, 60, most) with ordinality as c(
        message_id, payload, headers, key, priority, delivery_attempts, vt, published_at, correlation_id, tenant_id, place);
    if v_taken.ids is null then
        if (select penstock_data.has_slices(q.id) from penstock_data.queues q where q.name = move_messages.queue_name) then
            perform penstock_data.fail('PS018', format('queue %L is busy: other claims hold what it has', move_messages.queue_name));
        end if;
        return 0;
    end if;
    -- A statement of its own, with a snapshot of its own: what the claim took may be younger than the one above.
    perform count(*) from penstock.publish_messages(move_messages.topic_name, v_taken.payloads, headers => v_taken.headers,
        keys => v_taken.keys, priorities => v_taken.priorities, correlation_ids => v_taken.correlations, tenant_ids => v_taken.tenants,
        expires_at => array(
            -- Not within a minute, or it could be over before it is published.
            select case when m.expires_at is not null then greatest(coalesce(r.lapses_at, m.expires_at), v_now + interval '1 minute') end
            from unnest(v_taken.ids) with ordinality as u(id, place)
            join penstock_data.queues q on q.name = move_messages.queue_name
            left join lateral (
                select m.expires_at from penstock_data.messages m where m.topic_id = q.topic_id and m.id = u.id limit 1) m on true
            left join penstock_data.renewals r on r.queue_id = q.id and r.message_id = u.id
            order by u.place));
    perform count(*) from penstock.ack_messages(move_messages.queue_name, v_taken.ids, v_token);
    return cardinality(v_taken.ids);
end
$$;
comment on function penstock.move_messages(text, text, int) is 'Move waiting messages of a queue to another topic; returns how many.';

-- Move dead letters of a queue to another topic, all of them or those named, `most` at a time.  They are published
-- there and gone here, in one transaction; their headers are those of move_messages, and what expires does so after as
-- long as it had at first.  Returns how many.
-- Errors: PS001, PS002, PS005 the queue's own topic, PS009, PS013, PS014 an id that is no dead letter of the queue.
-- Roles: admin
create or replace function penstock.move_dlq_messages(
    queue_name text, topic_name text, message_ids bigint[] default null, most int default 1000
) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_queue penstock_data.queues;
    v_now   timestamptz := penstock_data.clock();
    v_count int;
begin
    perform penstock_data.check_move(move_dlq_messages.queue_name, move_dlq_messages.topic_name, most);
    select * into v_queue from penstock_data.queues q where q.name = move_dlq_messages.queue_name;
    perform penstock_data.check_dead_letters(v_queue, move_dlq_messages.message_ids);
    with chosen as materialized (
        select d.id from penstock_data.dead_letters d
        where d.queue_id = v_queue.id and (move_dlq_messages.message_ids is null or d.message_id = any (move_dlq_messages.message_ids))
        order by d.id limit most for update
    ), gone as (
        delete from penstock_data.dead_letters d using chosen c where d.id = c.id returning d.*
    ), arrays as (
        select array_agg(g.payload order by g.id) as payloads, array_agg(g.key order by g.id) as keys,
            array_agg(penstock_data.moved_headers(g.headers, v_queue.name, g.message_id) order by g.id) as headers,
            array_agg(g.priority order by g.id) as priorities,
            array_agg(penstock_data.renewed_expiry(g.expires_at, g.published_at, v_now) order by g.id) as expiries,
            array_agg(g.correlation_id order by g.id) as correlations, array_agg(g.tenant_id order by g.id) as tenants
        from gone g having count(*) > 0
    )
    select count(*) into v_count from arrays a
    cross join lateral penstock.publish_messages(move_dlq_messages.topic_name, a.payloads, headers => a.headers, keys => a.keys,
        priorities => a.priorities, expires_at => a.expiries, correlation_ids => a.correlations, tenant_ids => a.tenants);
    return v_count;
end
$$;
comment on function penstock.move_dlq_messages(text, text, bigint[], int) is 'Move dead letters of a queue to another topic; returns how many.';
