-- fifo: messages enter their lanes in the order given.  The first of a lane with nothing before it is scheduled, the
-- others wait in the backlog.  Returns how many can be claimed.  Under the queue's lock.
create or replace function penstock_data.enter_lanes(p_queue_id bigint, p_entries penstock_data.entry[], p_now timestamptz)
returns int
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_heads int;
begin
    with entries as materialized (
        select e.message_id, coalesce(e.lane, '') as lane, e.priority, greatest(e.visible_at, p_now) as visible_at, e.history, e.expires_at,
            e.place, row_number() over (partition by coalesce(e.lane, '') order by e.place) as nth
        from unnest(p_entries) with ordinality as e(message_id, lane, priority, visible_at, history, expires_at, place)
    ), lanes as materialized (
        select e.lane, l.ctid as place, coalesce(l.busy, false) as busy, coalesce(l.last_rank, 0) as last_rank
        from (select distinct lane from entries) e
        left join lateral (
            select l.ctid, l.busy, l.last_rank from penstock_data.lanes l
            where l.queue_id = p_queue_id and l.lane = e.lane order by l.seq desc limit 1) l on true
    ), heads as (
        insert into penstock_data.scheduled (queue_id, message_id, visible_at, priority, lane, history, expires_at)
        select p_queue_id, e.message_id, e.visible_at, e.priority, e.lane, e.history, e.expires_at
        from entries e join lanes l on l.lane = e.lane
        where e.nth = 1 and not l.busy
        order by e.place
        returning visible_at
    ), behind as (
        insert into penstock_data.backlog (queue_id, lane, message_id, visible_at, priority, history, expires_at)
        select p_queue_id, e.lane, e.message_id, e.visible_at, e.priority, e.history, e.expires_at
        from entries e join lanes l on l.lane = e.lane
        where e.nth > 1 or l.busy
        order by e.place
    ), superseded as (
        -- By place, here and below: a join might read all lanes, when the plan was made while there were few.
        delete from penstock_data.lanes l where l.ctid = any (array(select o.place from lanes o where not o.busy))
    ), busy as (
        insert into penstock_data.lanes (queue_id, lane, busy, last_rank, changed_at)
        select p_queue_id, l.lane, true, l.last_rank, p_now from lanes l where not l.busy
    )
    select count(*) into v_heads from heads h where h.visible_at <= p_now;
    return v_heads;
end
$$;

-- fifo: the heads of these lanes are done.  The next of each lane is scheduled, behind the keys already waiting.
create or replace function penstock_data.free_lanes(p_queue_id bigint, p_lanes text[], p_now timestamptz) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    with lanes as materialized (
        select f.lane, l.ctid as place, l.last_rank, b.ctid as head, b.rank, b.message_id, b.visible_at, b.priority, b.history, b.expires_at
        from unnest(p_lanes) as f(lane)
        cross join lateral (
            select l.ctid, l.last_rank from penstock_data.lanes l
            where l.queue_id = p_queue_id and l.lane = f.lane order by l.seq desc limit 1) l
        left join lateral (
            select b.ctid, b.* from penstock_data.backlog b
            where b.queue_id = p_queue_id and b.lane = f.lane and b.rank > l.last_rank order by b.rank limit 1) b on true
    ), heads as (
        insert into penstock_data.scheduled (queue_id, message_id, visible_at, priority, lane, history, expires_at)
        select p_queue_id, l.message_id, greatest(l.visible_at, p_now), l.priority, l.lane, l.history, l.expires_at
        from lanes l where l.message_id is not null
    ), promoted as (
        delete from penstock_data.backlog b where b.ctid = any (array(select l.head from lanes l))
    ), superseded as (
        delete from penstock_data.lanes o where o.ctid = any (array(select l.place from lanes l))
    )
    insert into penstock_data.lanes (queue_id, lane, busy, last_rank, changed_at)
    select p_queue_id, l.lane, l.message_id is not null, coalesce(l.rank, l.last_rank), p_now from lanes l;
end
$$;

-- fifo: messages of these lanes are finished.  Under the queue's lock.
create or replace function penstock_data.finish_in_lanes(p_queue_id bigint, p_ids bigint[], p_lanes text[], p_now timestamptz) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    if (select q.runs from penstock_data.queues q where q.id = p_queue_id) then
        perform penstock_data.end_runs(p_queue_id, p_ids, p_lanes, p_now);
    else
        perform penstock_data.free_lanes(p_queue_id, p_lanes, p_now);
    end if;
end
$$;

-- fifo: learn from the receipts which lanes are free.  Only a claim changes lanes, so an ack inside a long transaction
-- never blocks another session.  No order of commits loses a lane: receipts are read in windows, like the log.
create or replace function penstock_data.apply_receipts(
    p_position penstock_data.positions, p_snapshot pg_snapshot, p_now timestamptz
) returns penstock_data.positions
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_from  pg_snapshot := p_position.receipts_from;
    v_late  xid8[] := penstock_data.late_xids(v_from, p_snapshot);
    v_open  xid8[] := penstock_data.open_xids(p_snapshot);
    v_lanes text[];
    v_ids   bigint[];
    v_count int;
begin
    select array_agg(distinct u.lane) filter (where r.outcome in ('acked', 'dead', 'lapsed')),
        array_agg(u.id) filter (where r.outcome in ('acked', 'dead', 'lapsed')), count(*)
    into v_lanes, v_ids, v_count
    from (
        select r.lanes, r.message_ids, r.outcome from penstock_data.receipts r
        where r.queue_id = p_position.queue_id and r.xid = any (v_late) and r.lanes is not null
        union all
        select r.lanes, r.message_ids, r.outcome from penstock_data.receipts r
        where r.queue_id = p_position.queue_id
          and r.xid >= pg_snapshot_xmax(v_from) and r.xid < pg_snapshot_xmax(p_snapshot) and r.xid <> all (v_open)
          and r.lanes is not null
    ) r cross join lateral unnest(r.lanes, r.message_ids) as u(lane, id);
    if v_lanes is not null then
        perform penstock_data.finish_in_lanes(p_position.queue_id, v_ids, v_lanes, p_now);
    end if;
    -- Receipts that free no lane are passed as well before they are many, or each claim would read them again.
    if v_lanes is not null or v_count >= 50 then
        p_position.receipts_from := p_snapshot;
    end if;
    return p_position;
end
$$;

-- fair: the turn of a priority, the highest rank claimed in it so far.
create or replace function penstock_data.turn_of(p_position penstock_data.positions, p_priority int) returns bigint
language sql immutable as $$
    select coalesce(p_position.level_turns[array_position(coalesce(p_position.levels, '{0}'), p_priority)], 0)
$$;

-- fair: the turn that a message can have now: the current one, or the next when claims have passed its place in this
-- one.
create or replace function penstock_data.turn_for(p_turn bigint, p_turn_id bigint, p_message_id bigint) returns bigint
language sql immutable as $$
    select p_turn + case when p_message_id <= p_turn_id then 1 else 0 end
$$;

-- fair: give messages their turns.  A key's messages follow each other, so a busy key gets later turns than a quiet
-- one.  Each priority has turns of its own, its lanes are named '<priority>:<key>'.  A message without a key is its own
-- key.  Returns how many can be claimed.  Under the queue's lock.
create or replace function penstock_data.take_turns(
    p_position penstock_data.positions, p_entries penstock_data.entry[], p_now timestamptz
) returns int
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_ranked int;
begin
    with entries as materialized (
        select e.*, e.priority || ':' || e.lane as turns, row_number() over (partition by e.priority, e.lane order by e.place) as nth,
            -- One for all of them, or those that come late would be put behind the others.
            max(penstock_data.turn_for(level.turn, level.turn_id, e.message_id)) over (partition by e.priority) as turn
        from unnest(p_entries) with ordinality as e(message_id, lane, priority, visible_at, history, expires_at, place)
        join penstock_data.level_places(p_position) level on level.priority = e.priority
        where e.visible_at <= p_now
    ), lanes as materialized (
        select e.turns, l.ctid as place, greatest(e.turn, l.last_rank + 1) as next_rank, e.count
        from (select turns, max(turn) as turn, count(*) from entries where lane is not null group by turns) e
        left join lateral (
            select l.ctid, l.last_rank from penstock_data.lanes l
            where l.queue_id = p_position.queue_id and l.lane = e.turns order by l.seq desc limit 1) l on true
    ), delayed as (
        insert into penstock_data.scheduled (queue_id, message_id, visible_at, priority, lane, history, expires_at)
        select p_position.queue_id, e.message_id, e.visible_at, e.priority, e.lane, e.history, e.expires_at
        from unnest(p_entries) e where e.visible_at > p_now
    ), ranked as (
        insert into penstock_data.scheduled (queue_id, message_id, visible_at, rank, priority, lane, history, expires_at)
        select p_position.queue_id, e.message_id, e.visible_at,
            coalesce(l.next_rank + e.nth - 1, e.turn), e.priority, e.lane, e.history, e.expires_at
        from entries e left join lanes l on l.turns = e.turns
        returning 1
    ), superseded as (
        delete from penstock_data.lanes o where o.ctid = any (array(select l.place from lanes l))
    ), newest as (
        insert into penstock_data.lanes (queue_id, lane, busy, last_rank, changed_at)
        select p_position.queue_id, l.turns, false, l.next_rank + l.count - 1, p_now from lanes l
    )
    select count(*) into v_ranked from ranked;
    return v_ranked;
end
$$;
