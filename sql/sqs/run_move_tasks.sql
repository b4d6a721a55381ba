-- Carry on the move tasks that are running: call it every second or so.  Safe from everywhere at once.  Returns how many
-- messages were moved.  Locks: the tasks, and the claim locks of their queues.
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

-- One step of a task: as many messages as its rate allows by now.  Returns how many were moved.
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
    v_origin   text;
    v_group    pgqs_data.message[];
begin
    if v_source.id is null or p_task.destination_arn is not null and v_goal.id is null then
        update pgqs_data.move_tasks t set status = 'FAILED', failure_reason = 'AWS.SimpleQueueService.NonExistentQueue' where t.id = p_task.id;
        return 0;
    elsif v_allowed = 0 then
        return 0;
    end if;
    v_source.max_receive_count := null;
    v_messages := pgqs_data.claim(v_source, v_token, 30, v_allowed);
    for v_origin, v_group in
        select coalesce(p_task.destination_arn, u.headers -> 'sqs' ->> 'source'),
            array_agg((u.id, u.payload, u.headers, u.key, u.attempt, u.published_at, u.first_at, u.claimed_at)::pgqs_data.message order by u.place)
        from unnest(v_messages) with ordinality as u(id, payload, headers, key, attempt, published_at, first_at, claimed_at, place)
        group by 1
    loop
        v_goal := pgqs_data.queue_named(pgqs_data.engine_queue_of_arn(v_origin));
        if v_goal.id is null then
            update pgqs_data.move_tasks t set status = 'FAILED',
                failure_reason = case when v_origin is null then 'CouldNotDetermineMessageSource' else 'AWS.SimpleQueueService.NonExistentQueue' end
            where t.id = p_task.id;
            perform penstock.release_messages(v_source.engine_name, array(select m.id from unnest(v_group) m), v_token);
        else
            perform pgqs_data.take_out(v_source.id, v_token, array(select m.id from unnest(v_group) m), 'moved to ' || v_origin);
            -- A new beginning: new id, new age, nothing received yet.
            perform pgqs_data.put_into(v_goal, v_group, array(
                select nullif(m.headers - 'sqs' || case when s = '{}' then '{}' else jsonb_build_object('sqs', s) end, '{}')
                from unnest(v_group) m cross join lateral (select coalesce(m.headers -> 'sqs', '{}') - '{id,source,count,first}'::text[]) as h(s)), false);
            update pgqs_data.move_tasks t set moved = t.moved + cardinality(v_group) where t.id = p_task.id;
        end if;
    end loop;
    if coalesce(cardinality(v_messages), 0) < v_allowed then
        update pgqs_data.move_tasks t set status = 'COMPLETED' where t.id = p_task.id and t.status = 'RUNNING';
    end if;
    return (select t.moved - p_task.moved from pgqs_data.move_tasks t where t.id = p_task.id);
end
$$;
