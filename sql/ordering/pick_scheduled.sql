-- Take up to p_limit due messages out of the schedule into a claim: higher priority first, then due time or turn, then
-- log order.  p_levels are the priorities to look at.  Messages whose time is over lapse instead of being delivered,
-- and others take their places: a consumer must not take the queue for empty.  Once something is found, a thousand of
-- them end it.  Goes on behind the place of each level, and moves it.  Under the queue's lock.
create or replace function penstock_data.pick_scheduled(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_levels int[],
    p_token text, p_deadline timestamptz, p_now timestamptz, p_limit int
) returns penstock_data.pick
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    c_enough constant int := 1000;
    v_fair   boolean := p_queue.ordering = 'fair';
    v_pick   penstock_data.pick;
    v_left   int := p_limit;
    v_look   int := p_limit;        -- how many are looked at: more and more, while what is found lapses
    v_found  record;
    v_free   tid[];                 -- rows that no claim ahead has locked
    v_over   boolean[];
    v_taken  int;                   -- how many of the found ones are dealt with
    v_full   boolean;               -- there may be more
    v_claim  record;
    v_count  int := 0;              -- how many lapsed
begin
    if p_queue.runs then
        return penstock_data.pick_runs(p_queue, p_position, p_levels, p_token, p_deadline, p_now, p_limit);
    end if;
    loop
        if v_fair then
            p_position := penstock_data.give_turns(p_position, p_now);
        end if;
        with due as materialized (
            select * from penstock_data.due_messages(p_queue.id, p_position, p_levels, v_fair, p_now, v_look)
        )
        select
            count(*)::int as count,
            array_agg(d.place) as places, array_agg(d.message_id) as ids, array_agg(d.attempt + 1) as attempts, array_agg(d.lane) as lanes,
            jsonb_object_agg(d.message_id, d.history) filter (where d.history is not null) as histories,
            array_agg(d.priority) as priorities, array_agg(d.visible_at) as visible_at, array_agg(d.rank) as ranks
        into v_found
        from due d;

        if v_found.count > 0 then
            v_free := penstock_data.lock_places(v_found.places);
            if cardinality(v_free) < v_found.count then
                -- Claims ahead have locked the others.  They are due again if those roll back, so the claim has to look
                -- below the floors soon (look_again); a fair queue does not pass them, because its turns don't come
                -- back.
                if not v_fair and v_found.count = v_look and cardinality(v_free) < v_left and v_look < 10000 then
                    v_look := least(2 * v_look + 100, 10000);
                    continue;
                end if;
                p_position.full_scan_at := '-infinity';
                select
                    count(*)::int as count, array_agg(u.place) as places, array_agg(u.id) as ids, array_agg(u.attempt) as attempts,
                    array_agg(u.lane) as lanes, v_found.histories as histories, array_agg(u.priority) as priorities,
                    array_agg(u.visible_at) as visible_at, array_agg(u.rank) as ranks
                into v_found
                from (
                    select u.*
                    from unnest(v_found.places, v_found.ids, v_found.attempts, v_found.lanes, v_found.priorities, v_found.visible_at, v_found.ranks)
                        with ordinality as u(place, id, attempt, lane, priority, visible_at, rank, nth)
                    where u.place = any (v_free)
                      and (not v_fair or u.nth <= (
                          select count(*) from unnest(v_found.places) with ordinality as f(place, nth)
                          where f.nth <= u.nth and f.place = any (v_free)))
                    order by u.nth) u;
            end if;
        end if;
        v_taken := v_found.count;
        if v_found.count > 0 then
            perform penstock_data.check_not_moved(p_queue.topic_id, v_found.ids);
            v_over := penstock_data.are_over(p_queue, v_found.ids, p_now);
            if v_found.count > v_left then
                v_taken := penstock_data.last_that_fits(v_over, v_left);
            end if;
        end if;
        v_full := v_found.count = v_look or v_taken < v_found.count;
        if not v_fair then
            p_position := penstock_data.with_floors(p_position, p_levels, p_now,
                v_full, v_found.priorities[v_taken], v_found.visible_at[v_taken], v_found.ids[v_taken]);
        elsif v_found.count > 0 then
            p_position := penstock_data.with_turns(p_position, v_found.priorities[:v_taken], v_found.ranks[:v_taken], v_found.ids[:v_taken]);
        end if;
        exit when v_found.count = 0;

        -- By place: by their ids, a plan made while the table was small may read all of the queue.
        delete from penstock_data.scheduled s where s.ctid = any (v_found.places[:v_taken]);
        insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
        select
            p_queue.id, min(u.id), p_deadline, p_now, p_token, array_agg(u.id order by u.place), array_agg(u.attempt order by u.place),
            case when not p_queue.direct then array_agg(u.lane order by u.place) end, v_found.histories
        from unnest(v_found.ids, v_found.attempts, v_found.lanes, v_over) with ordinality as u(id, attempt, lane, over, place)
        where not u.over and u.place <= v_taken
        having count(*) > 0
        returning message_ids, attempts into v_claim;
        if found then
            v_pick.message_ids := v_pick.message_ids || v_claim.message_ids;
            v_pick.attempts := v_pick.attempts || v_claim.attempts;
            v_left := p_limit - cardinality(v_pick.message_ids);
        end if;

        exit when array_position(v_over[:v_taken], true) is null;
        -- Floors are at p_now by now: what is placed from here on is due a moment later, or it would lie below.
        if not p_queue.direct then
            p_now := p_now + interval '1 microsecond';
        end if;
        v_count := v_count + penstock_data.lapse_found(p_queue, v_found.ids[:v_taken], v_found.lanes[:v_taken], v_over[:v_taken], p_now);

        exit when v_left = 0 or not (v_full or p_queue.ordering = 'fifo');
        exit when v_pick.message_ids is not null and v_count >= c_enough;
        if not p_queue.direct then
            -- They had been counted on, so the log may hold messages that go ahead of low priorities.
            p_position := penstock_data.schedule_log(p_queue, p_position, p_now, v_left, null);
        end if;
        v_look := greatest(v_left, least(2 * v_look, 10000));
    end loop;
    v_pick.position := p_position;
    return v_pick;
end
$$;

-- The first due messages of some levels, in claim order, behind the places of these levels: by due time, or by rank in
-- a fair queue.  Plain SQL, stable, so that the planner puts it into the calling statement.
create or replace function penstock_data.due_messages(
    p_queue_id bigint, p_position penstock_data.positions, p_levels int[], p_fair boolean, p_now timestamptz, p_limit int
) returns table (place tid, message_id bigint, attempt int, lane text, history jsonb, priority int, visible_at timestamptz, rank bigint)
language sql stable as $$
    select s.*
    from penstock_data.level_places(p_position) level
    cross join lateral (
        (select s.ctid, s.message_id, s.attempt, s.lane, s.history, s.priority, s.visible_at, s.rank
        from penstock_data.scheduled s
        where not p_fair and s.queue_id = p_queue_id and s.priority = level.priority and s.rank is null
          and (s.visible_at, s.message_id) > (level.floor, level.floor_id) and s.visible_at <= p_now
        order by s.visible_at, s.message_id limit p_limit)
        union all
        (select s.ctid, s.message_id, s.attempt, s.lane, s.history, s.priority, s.visible_at, s.rank
        from penstock_data.scheduled s
        where p_fair and s.queue_id = p_queue_id and s.priority = level.priority and s.rank is not null
          and (s.rank, s.message_id) > (level.turn, level.turn_id)
        order by s.rank, s.message_id limit p_limit)
    ) s
    where level.priority = any (p_levels)
    limit p_limit
$$;

-- The place of the last message that fits into a batch of p_limit, when those whose time is over take no place in it.
create or replace function penstock_data.last_that_fits(p_over boolean[], p_limit int) returns int
language sql immutable as $$
    select coalesce(min(u.place) filter (where u.alive = p_limit), cardinality(p_over))::int
    from (
        select o.place, count(*) filter (where not o.over) over (order by o.place) as alive
        from unnest(p_over) with ordinality as o(over, place)) u
$$;

-- The floors after a pick.  Levels that were looked at and had no more are dealt with up to now; the level in which the
-- batch became full up to its last message; the others stay where they were.
create or replace function penstock_data.with_floors(
    p_position penstock_data.positions, p_looked_at int[], p_now timestamptz,
    p_full boolean, p_last_priority int, p_last_visible_at timestamptz, p_last_id bigint
) returns penstock_data.positions
language plpgsql as $$
declare
    v_floors    timestamptz[];
    v_floor_ids bigint[];
begin
    if not p_full and p_position.levels is null then
        p_position.level_floors := null;
        p_position.level_floor_ids := null;
        return p_position;
    end if;
    select array_agg(l.floor), array_agg(l.floor_id) into v_floors, v_floor_ids
    from (
        select
            case when l.done then p_now when l.broken then p_last_visible_at else l.floor end as floor,
            case when l.done then null when l.broken then p_last_id else nullif(l.floor_id, 9223372036854775807) end as floor_id
        from (
            select level.*,
                level.priority = any (p_looked_at) and (not p_full or level.priority > p_last_priority) as done,
                level.priority = any (p_looked_at) and level.priority = p_last_priority as broken
            from penstock_data.level_places(p_position) level) l
    ) l;
    if p_now = all (v_floors) and array_remove(v_floor_ids, null) = '{}' then
        v_floors := null;
        v_floor_ids := null;
    end if;
    p_position.level_floors := v_floors;
    p_position.level_floor_ids := v_floor_ids;
    return p_position;
end
$$;

-- Rows of the schedule were passed over that others have locked.  Look below the floors in a moment: they may roll
-- back.
create or replace function penstock_data.look_again(p_position penstock_data.positions, p_now timestamptz)
returns penstock_data.positions
language plpgsql as $$
begin
    p_position.full_scan_at := p_now + interval '100 milliseconds';
    p_position.attend_at := least(p_position.attend_at, p_position.full_scan_at);
    return p_position;
end
$$;

-- fair: the turns after a pick.  Each level has turns of its own: what is claimed ahead of the others must not end
-- theirs.
create or replace function penstock_data.with_turns(
    p_position penstock_data.positions, p_priorities int[], p_ranks bigint[], p_ids bigint[]
) returns penstock_data.positions
language plpgsql as $$
begin
    select array_agg(coalesce(last.rank, level.turn)), array_agg(coalesce(last.id, level.turn_id))
    into p_position.level_turns, p_position.level_turn_ids
    from penstock_data.level_places(p_position) level
    left join lateral (
        select u.rank, u.id from unnest(p_priorities, p_ranks, p_ids) as u(priority, rank, id)
        where u.priority = level.priority order by u.rank desc, u.id desc limit 1) last on true;
    p_position.turn := greatest(p_position.turn, (select max(rank) from unnest(p_ranks) rank));
    return p_position;
end
$$;

-- fair: messages that became due get the current turn of their level; they have waited for it already.
create or replace function penstock_data.give_turns(p_position penstock_data.positions, p_now timestamptz)
returns penstock_data.positions
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    c_most constant int := 10000;
    v_due  record;
    v_free tid[];
begin
    select
        count(*)::int as count, array_agg(d.place) as places, (array_agg(d.priority))[count(*)] as last_priority,
        (array_agg(d.visible_at))[count(*)] as last_visible_at, (array_agg(d.message_id))[count(*)] as last_id
    into v_due
    from (
        select d.*
        from penstock_data.level_places(p_position) level
        cross join lateral (
            select d.ctid as place, d.priority, d.visible_at, d.message_id from penstock_data.scheduled d
            where d.queue_id = p_position.queue_id and d.priority = level.priority and d.rank is null
              and (d.visible_at, d.message_id) > (level.floor, level.floor_id) and d.visible_at <= p_now
            order by d.visible_at, d.message_id limit c_most) d
        limit c_most
    ) d;
    if v_due.count > 0 then
        v_free := penstock_data.lock_places(v_due.places);
        update penstock_data.scheduled s
        set xid = null, rank = (
            select penstock_data.turn_for(level.turn, level.turn_id, s.message_id)
            from penstock_data.level_places(p_position) level where level.priority = s.priority)
        where s.ctid = any (v_free);
    end if;
    return penstock_data.with_floors(p_position, coalesce(p_position.levels, '{0}'), p_now,
        v_due.count = c_most, v_due.last_priority, v_due.last_visible_at, v_due.last_id);
end
$$;
