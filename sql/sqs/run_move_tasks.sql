-- Carry on the move tasks that are running: call it every second or so.  Safe from everywhere at once.  Returns how
-- many messages were moved.  Locks: the tasks, and the claim locks of their queues.
-- Roles: consumer, admin
create or replace function pgqs.run_move_tasks() returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    v_task  pgqs_data.move_tasks;
    v_moved bigint := 0;
begin
    for v_task in select * from pgqs_data.move_tasks t where t.status = 'RUNNING' order by t.seq for update skip locked loop
        v_moved := v_moved + pgqs_data.move_some(v_task);
    end loop;
    return v_moved;
end
$$;
comment on function pgqs.run_move_tasks() is 'Carry on the running message move tasks; returns how many messages were moved.';

-- One step of a task: as many messages as its rate allows by now.  Returns how many were moved.  The task is completed
-- when a claim finds nothing; not when the queue is paused, or when another claim holds it.
create or replace function pgqs_data.move_some(p_task pgqs_data.move_tasks) returns bigint
language plpgsql as $$
declare
    c_most     constant int := 1000;
    v_source   pgqs_data.queue := pgqs_data.queue_named(pgqs_data.engine_queue_of_arn(p_task.source_arn));
    v_goal     pgqs_data.queue := pgqs_data.queue_named(pgqs_data.engine_queue_of_arn(p_task.destination_arn));
    v_allowed  int := case when p_task.rate is null then c_most
        else least(c_most, greatest(0, ceil(extract(epoch from penstock_data.clock() - p_task.started_at) * p_task.rate)::bigint - p_task.moved)) end;
    v_token    text := pgqs_data.new_token();
    v_messages pgqs_data.message[];
    v_moved    bigint := 0;
begin
    if v_source.id is null or p_task.destination_arn is not null and v_goal.id is null then
        update pgqs_data.move_tasks t set status = 'FAILED', failure_reason = 'AWS.SimpleQueueService.NonExistentQueue' where t.id = p_task.id;
        return 0;
    elsif exists (select from penstock_data.queues q where q.id = v_source.id and q.paused_at is not null)
          or not penstock_data.await_lone_turn(v_source.engine_name) then
        return 0;
    end if;
    while v_moved < v_allowed loop
        v_messages := array(
            select (c.message_id, c.payload, c.headers, c.key, c.delivery_attempts, c.published_at, c.vt)::pgqs_data.message
            from penstock.consume_messages_batch(v_source.engine_name, v_token, 30, (v_allowed - v_moved)::int) c);
        if v_messages = '{}' then
            exit when penstock_data.has_slices(v_source.id);    -- other claims hold what is left
            update pgqs_data.move_tasks t set status = 'COMPLETED' where t.id = p_task.id;
        end if;
        v_moved := v_moved + pgqs_data.move_claimed(p_task, v_source, v_token, v_messages);
        exit when (select t.status <> 'RUNNING' from pgqs_data.move_tasks t where t.id = p_task.id);
    end loop;
    return v_moved;
end
$$;

-- Claimed messages go where the task says, or else where each came from.  Returns how many were moved; the others are
-- released, and the task has failed.
create or replace function pgqs_data.move_claimed(
    p_task pgqs_data.move_tasks, p_source pgqs_data.queue, p_token text, p_messages pgqs_data.message[]
) returns bigint
language plpgsql as $$
declare
    v_origin text;
    v_group  pgqs_data.message[];
    v_goal   pgqs_data.queue;
    v_moved  bigint := 0;
begin
    for v_origin, v_group in
        select coalesce(p_task.destination_arn, u.headers -> 'sqs' ->> 'source'),
            array_agg((u.id, u.payload, u.headers, u.key, u.attempt, u.published_at, u.claimed_at)::pgqs_data.message order by u.place)
        from unnest(p_messages) with ordinality as u(id, payload, headers, key, attempt, published_at, claimed_at, place)
        group by 1
    loop
        v_goal := pgqs_data.queue_named(pgqs_data.engine_queue_of_arn(v_origin));
        if v_goal.id is null then
            update pgqs_data.move_tasks t set status = 'FAILED',
                failure_reason = case when v_origin is null then 'CouldNotDetermineMessageSource' else 'AWS.SimpleQueueService.NonExistentQueue' end
            where t.id = p_task.id;
            perform penstock.release_messages(p_source.engine_name, array(select m.id from unnest(v_group) m), p_token);
        else
            perform pgqs_data.take_out(p_source.id, p_token, array(select m.id from unnest(v_group) m), 'moved to ' || v_origin);
            -- A new beginning: new id, new age, nothing received yet.
            perform pgqs_data.put_into(v_goal, v_group, array(
                select nullif(m.headers - 'sqs' || case when s = '{}' then '{}' else jsonb_build_object('sqs', s) end, '{}')
                from unnest(v_group) m cross join lateral (select coalesce(m.headers -> 'sqs', '{}') - '{id,source,count,first}'::text[]) as h(s)), false);
            update pgqs_data.move_tasks t set moved = t.moved + cardinality(v_group) where t.id = p_task.id;
            v_moved := v_moved + cardinality(v_group);
        end if;
    end loop;
    return v_moved;
end
$$;
