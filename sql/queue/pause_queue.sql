-- Give out no more messages of a queue until resume_queue.  Returns since when it is paused.  Publishing goes on, and
-- so do acks, nacks and extensions of what is claimed already; a claim that ends meanwhile is taken back after the
-- pause.
-- Locks: the queue's claim lock and its slices, so that no claim is under way when this returns.
-- Errors: PS002 unknown queue.
-- Roles: admin
create or replace function penstock.pause_queue(queue_name text) returns timestamptz
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_since    timestamptz;
    v_position penstock_data.positions;
begin
    perform penstock_data.check_queue(queue_name);
    perform penstock_data.lock_queue_and_claims(q.id, q.name, p_slices => true) from penstock_data.queues q where q.name = queue_name;
    perform penstock_data.end_slices(q.id, penstock_data.clock()) from penstock_data.queues q where q.name = queue_name;
    -- A claim may have looked at the queue before this and take the claim lock after it.  It reads the position with a
    -- newer snapshot, and one that wants care makes it look again.
    select p.* into v_position from penstock_data.queues q cross join lateral penstock_data.position_of(q.id) p where q.name = queue_name;
    v_position.attend_at := '-infinity';
    perform penstock_data.append_position(v_position);
    update penstock_data.queues q set paused_at = coalesce(q.paused_at, penstock_data.clock())
    where q.name = queue_name
    returning q.paused_at into v_since;
    return v_since;
end
$$;
comment on function penstock.pause_queue(text) is 'Give out no more messages of a queue until resume_queue; returns since when.';

-- Give out messages again, and notify the consumers that wait for them.  False: the queue was not paused.
-- Errors: PS002 unknown queue.
-- Roles: admin
create or replace function penstock.resume_queue(queue_name text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_id bigint;
begin
    perform penstock_data.check_queue(queue_name);
    update penstock_data.queues q set paused_at = null
    where q.name = queue_name and q.paused_at is not null
    returning q.id into v_id;
    if v_id is null then
        return false;
    end if;
    perform penstock_data.wake_queue(v_id, 0);
    return true;
end
$$;
comment on function penstock.resume_queue(text) is 'Give out messages of a paused queue again; false when it was not paused.';
