-- Runs: fifo queues in which a claim takes as many consecutive messages of one key as fit (SQS's rule).  The backlog
-- holds every unfinished message of a lane; those that are out, claimed or back in the schedule, are held.  What a lane
-- gives is always its lowest messages: those held and due in the schedule, or not held; a claimed one stops it.  So a
-- message that came back early is delivered although later ones are still claimed, and one that is claimed for longer
-- holds up all behind it.  docs/internals/lanes.md

-- Messages enter their lanes in the order given.  A lane without any gets its first one scheduled: that is its ticket.
-- Returns how many can be claimed.  Under the queue's lock.
create or replace function penstock_data.enter_runs(p_queue_id bigint, p_entries penstock_data.entry[], p_now timestamptz)
returns int
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_ready int;
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
    ), placed as (
        insert into penstock_data.backlog (queue_id, lane, message_id, visible_at, priority, history, held, expires_at)
        select p_queue_id, e.lane, e.message_id, e.visible_at, e.priority, e.history, e.nth = 1 and not l.busy, e.expires_at
        from entries e join lanes l on l.lane = e.lane
        order by e.place
    ), tickets as (
        insert into penstock_data.scheduled (queue_id, message_id, visible_at, priority, lane, history, expires_at)
        select p_queue_id, e.message_id, e.visible_at, e.priority, e.lane, e.history, e.expires_at
        from entries e join lanes l on l.lane = e.lane
        where e.nth = 1 and not l.busy
        order by e.place
    ), superseded as (
        delete from penstock_data.lanes l where l.ctid = any (array(select o.place from lanes o where not o.busy))
    ), busy as (
        insert into penstock_data.lanes (queue_id, lane, busy, last_rank, changed_at)
        select p_queue_id, l.lane, true, l.last_rank, p_now from lanes l where not l.busy
    )
    select count(*) into v_ready from entries e join lanes l on l.lane = e.lane where not l.busy and e.visible_at <= p_now;
    return v_ready;
end
$$;

-- Messages are finished.  A lane that has nothing out below its lowest message gets a ticket, behind the keys already
-- waiting.  Under the queue's lock.
create or replace function penstock_data.end_runs(p_queue_id bigint, p_ids bigint[], p_lanes text[], p_now timestamptz) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_last bigint;
begin
    -- Held ones only: the same message may have been put at the lane's end again, out of the dead letters.
    with gone as (
        delete from penstock_data.backlog b
        where b.ctid = any (array(
            select b.ctid from unnest(p_ids) as u(id)
            cross join lateral (
                select b.ctid from penstock_data.backlog b
                where b.queue_id = p_queue_id and b.message_id = u.id and b.held order by b.rank limit 1) b))
        returning b.rank
    )
    select max(g.rank) into v_last from gone g;

    with lanes as materialized (
        select f.lane, l.ctid as place, l.last_rank, b.ctid as head, b.rank, b.message_id, b.visible_at, b.priority, b.history, b.attempt, b.held, b.expires_at
        from (select distinct f.lane from unnest(p_lanes) as f(lane)) f
        cross join lateral (
            select l.ctid, l.last_rank from penstock_data.lanes l
            where l.queue_id = p_queue_id and l.lane = f.lane order by l.seq desc limit 1) l
        left join lateral (
            select b.ctid, b.* from penstock_data.backlog b
            where b.queue_id = p_queue_id and b.lane = f.lane and b.rank > l.last_rank order by b.rank limit 1) b on true
    ), tickets as (
        insert into penstock_data.scheduled (queue_id, message_id, visible_at, priority, attempt, lane, history, expires_at)
        select p_queue_id, l.message_id, greatest(l.visible_at, p_now), l.priority, l.attempt, l.lane, l.history, l.expires_at
        from lanes l where not l.held
    ), held as (
        update penstock_data.backlog b set held = true where b.ctid = any (array(select l.head from lanes l where not l.held))
    ), superseded as (
        delete from penstock_data.lanes o where o.ctid = any (array(select l.place from lanes l))
    )
    insert into penstock_data.lanes (queue_id, lane, busy, last_rank, changed_at)
    select p_queue_id, l.lane, l.message_id is not null, greatest(l.last_rank, coalesce(l.rank - 1, v_last)), p_now from lanes l;
end
$$;

-- The first unfinished messages of a lane.  gives: it can be claimed.  place: in the backlog.  out_place: in the
-- schedule, when it is there.  Plain SQL, stable, so that the planner puts it into the calling statement.
create or replace function penstock_data.lane_messages(p_queue_id bigint, p_lane text, p_now timestamptz, p_limit int)
returns table (
    place tid, rank bigint, message_id bigint, lane text, held boolean, out_place tid, attempt int, history jsonb, gives boolean
)
language sql stable as $$
    select b.ctid, b.rank, b.message_id, b.lane, b.held, s.place,
        coalesce(s.attempt, b.attempt), case when b.held then s.history else b.history end,
        case when b.held then coalesce(s.visible_at <= p_now, false) else b.visible_at <= p_now end
    from (
        select l.last_rank from penstock_data.lanes l
        where l.queue_id = p_queue_id and l.lane = p_lane order by l.seq desc limit 1) l
    cross join lateral (
        select b.ctid, b.* from penstock_data.backlog b
        where b.queue_id = p_queue_id and b.lane = p_lane and b.rank > l.last_rank order by b.rank limit p_limit) b
    left join lateral (
        select s.ctid as place, s.attempt, s.history, s.visible_at from penstock_data.scheduled s
        where b.held and s.queue_id = p_queue_id and s.message_id = b.message_id) s on true
$$;

-- Take what the lanes of the first p_most due tickets give, up to p_limit messages, out of the schedule and the
-- backlog. tickets, blocked: how many were found, and how many of them gave nothing.  last_…: the last ticket dealt
-- with.  Under the queue's lock.
create or replace function penstock_data.take_runs(
    p_queue_id bigint, p_position penstock_data.positions, p_levels int[], p_now timestamptz, p_most int, p_limit int,
    out tickets int, out count int, out blocked int, out ids bigint[], out attempts int[], out lanes text[], out histories jsonb,
    out last_priority int, out last_visible_at timestamptz, out last_id bigint
)
language plpgsql as $$
begin
    with tickets as materialized (
        select s.*, row_number() over () as nth
        from (
            select s.*
            from penstock_data.level_places(p_position) level
            cross join lateral (
                select s.ctid as place, s.message_id, s.attempt, s.lane, s.history, s.priority, s.visible_at
                from penstock_data.scheduled s
                where s.queue_id = p_queue_id and s.priority = level.priority and s.rank is null
                  and (s.visible_at, s.message_id) > (level.floor, level.floor_id) and s.visible_at <= p_now
                order by s.visible_at, s.message_id limit p_most) s
            where level.priority = any (p_levels)
            limit p_most) s
    ), runs as materialized (
        select t.nth, r.*, bool_and(r.gives) over (partition by t.lane order by r.rank) as given
        from (select t.lane, min(t.nth) as nth from tickets t group by t.lane) t
        cross join lateral penstock_data.lane_messages(p_queue_id, t.lane, p_now, p_limit) r
    ), taken as materialized (
        select r.* from runs r where r.given order by r.nth, r.rank limit p_limit
    ), reached as (
        -- The last ticket whose lane was dealt with: of the full batch the one that filled it, else the last.
        select t.* from tickets t
        where t.nth = case when (select count(*) from taken) = p_limit
            then (select max(k.nth) from taken k) else (select max(t.nth) from tickets t) end
    ), blocked as (
        -- Due, but a claimed message stands before them: they go back into the backlog until it is finished or back.
        select t.place, b.place as home, t.attempt, t.history, t.visible_at
        from tickets t
        cross join lateral (
            select b.ctid as place from penstock_data.backlog b
            where b.queue_id = p_queue_id and b.message_id = t.message_id and b.held order by b.rank limit 1) b
        where t.nth <= (select r.nth from reached r) and t.message_id <> all (array(select k.message_id from taken k))
    ), parked as (
        update penstock_data.backlog b set held = false, attempt = x.attempt, history = x.history, visible_at = x.visible_at
        from blocked x where b.ctid = x.home
    ), gone as (
        delete from penstock_data.scheduled s
        where s.ctid = any (array(select t.out_place from taken t where t.out_place is not null union all select x.place from blocked x))
    ), held as (
        update penstock_data.backlog b set held = true where b.ctid = any (array(select t.place from taken t where not t.held))
    )
    select
        (select count(*) from tickets), (select count(*) from taken), (select count(*) from blocked),
        (select array_agg(t.message_id order by t.nth, t.rank) from taken t),
        (select array_agg(t.attempt + 1 order by t.nth, t.rank) from taken t),
        (select array_agg(t.lane order by t.nth, t.rank) from taken t),
        (select jsonb_object_agg(t.message_id, t.history) filter (where t.history is not null) from taken t),
        r.priority, r.visible_at, r.message_id
    into tickets, count, blocked, ids, attempts, lanes, histories, last_priority, last_visible_at, last_id
    from (select 1) one left join reached r on true;
end
$$;

-- Take messages of lanes with due tickets into a claim, as many of one lane as it gives before the next lane.
-- Arguments, result and places as with pick_scheduled.  Under the queue's lock.
create or replace function penstock_data.pick_runs(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_levels int[],
    p_token text, p_deadline timestamptz, p_now timestamptz, p_limit int
) returns penstock_data.pick
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    c_lanes   constant int := 20;       -- looked at in one go
    c_enough  constant int := 1000;     -- as in pick_scheduled
    v_most    int;
    v_found   record;
    v_over    boolean[];
    v_pick    penstock_data.pick;
    v_claim   record;
    v_left    int := p_limit;
    v_count   int := 0;                 -- how many lapsed
begin
    loop
        v_most := least(v_left, c_lanes);
        v_over := '{}';
        select * into v_found from penstock_data.take_runs(p_queue.id, p_position, p_levels, p_now, v_most, v_left);
        p_position := penstock_data.with_floors(p_position, p_levels, p_now,
            v_found.count = v_left or v_found.tickets = v_most, v_found.last_priority, v_found.last_visible_at, v_found.last_id);
        -- The floor is at p_now by now: what becomes due from here on is due a moment later, or it would lie below.
        p_now := p_now + interval '1 microsecond';
        if v_found.count > 0 then
            perform penstock_data.check_not_moved(p_queue.topic_id, v_found.ids);
            v_over := penstock_data.are_over(p_queue, v_found.ids, p_now);
            insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
            select p_queue.id, min(u.id), p_deadline, p_now, p_token, array_agg(u.id order by u.place), array_agg(u.attempt order by u.place),
                array_agg(u.lane order by u.place), v_found.histories
            from unnest(v_found.ids, v_found.attempts, v_found.lanes, v_over) with ordinality as u(id, attempt, lane, over, place)
            where not u.over
            having count(*) > 0
            returning message_ids, attempts into v_claim;
            if found then
                v_pick.message_ids := v_pick.message_ids || v_claim.message_ids;
                v_pick.attempts := v_pick.attempts || v_claim.attempts;
                v_left := p_limit - cardinality(v_pick.message_ids);
            end if;
        end if;
        if true = any (v_over) then
            v_count := v_count + penstock_data.lapse_found(p_queue, v_found.ids, v_found.lanes, v_over, p_now);
        end if;

        -- More tickets than were looked at, or places that lapsed messages took: go on until the batch is full.
        exit when v_found.tickets = 0 or v_left = 0 or not (v_found.tickets = v_most or true = any (v_over));
        exit when v_pick.message_ids is not null and v_count >= c_enough;
        if v_found.blocked > 0 or true = any (v_over) then
            -- They had been counted on, so the log was not looked into.
            p_position := penstock_data.schedule_log(p_queue, p_position, p_now, v_left, null);
        end if;
    end loop;
    v_pick.position := p_position;
    return v_pick;
end
$$;
