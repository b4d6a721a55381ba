-- Messages that come into a queue's schedule by transactions that do not hold its lock: nack, release, maintain,
-- deliver.  Such a transaction computes a due time and commits later, when claims may have passed that place.  So its
-- rows bear its xid, and claims read them in windows of snapshots, like the log: no commit is too late.

-- Did one of the transactions that were open in a snapshot give messages of the queue back, and commit since?
create or replace function penstock_data.given_back_late(p_queue_id bigint, p_snapshot pg_snapshot) returns boolean
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
    return exists (
        select from pg_snapshot_xip(p_snapshot) as x(xid)
        cross join lateral (
            select from penstock_data.scheduled s
            where s.queue_id = p_queue_id and s.xid = x.xid
            order by s.xid limit 1) s);
end
$$;

-- Lift what was given back with a place that claims have passed to just above the floor of its level.  p_full: and
-- whatever else lies below the floors.  moving: the position may go on to the current snapshot.  Under the queue's
-- lock.
create or replace function penstock_data.lift_late(
    inout p_position penstock_data.positions, p_snapshot pg_snapshot, p_full boolean, out moving boolean
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_places     tid[];
    v_free       tid[];
    v_priorities int[];
begin
    select array_agg(s.ctid), array_agg(distinct s.priority) into v_places, v_priorities
    from (
        select s.ctid, s.priority
        from pg_snapshot_xip(p_position.flagged_from) as x(xid)
        cross join lateral (
            select s.ctid, s.priority from penstock_data.scheduled s where s.queue_id = p_position.queue_id and s.xid = x.xid
            order by s.xid) s
        union all
        (select s.ctid, s.priority from penstock_data.scheduled s
        where s.queue_id = p_position.queue_id and s.xid >= pg_snapshot_xmax(p_position.flagged_from)
        order by s.xid)
    ) s;
    moving := v_places is not null;
    p_position := penstock_data.with_levels(p_position, v_priorities);
    if p_full then
        v_places := v_places || array(
            select s.ctid
            from penstock_data.level_places(p_position) level
            cross join lateral (
                select s.ctid from penstock_data.scheduled s
                where s.queue_id = p_position.queue_id and s.priority = level.priority and s.rank is null
                  and (s.visible_at, s.message_id) <= (level.floor, level.floor_id)
                order by s.visible_at, s.message_id limit 10000) s);
        -- Now and then move on without need: to have fewer open transactions to ask after, and fewer dead rows.
        moving := moving or pg_snapshot_xmin(p_position.flagged_from) < pg_snapshot_xmax(p_position.flagged_from)
            or pg_snapshot_xmin(p_snapshot) = pg_snapshot_xmax(p_snapshot);
    end if;
    v_free := penstock_data.lock_places(v_places);
    if cardinality(v_free) < cardinality(v_places) then
        p_position.full_scan_at := '-infinity';     -- claims ahead have locked the others (look_again)
    end if;
    if v_free <> '{}' then
        update penstock_data.scheduled s
        set xid = null, visible_at = (
            select level.floor + interval '1 microsecond' from penstock_data.level_places(p_position) level where level.priority = s.priority)
        where s.ctid = any (v_free) and (s.visible_at, s.message_id) <= (
            select level.floor, level.floor_id from penstock_data.level_places(p_position) level where level.priority = s.priority);
    end if;
end
$$;
