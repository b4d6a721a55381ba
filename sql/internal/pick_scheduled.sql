-- Take up to p_limit due messages out of the schedule into a claim: higher priority first, then due time or turn, then
-- log order.  p_levels are the priorities to look at.  Messages whose time is over lapse instead of being delivered.
-- p_position.floor is where the scan starts ('-infinity': everywhere).  Under the queue's lock.
create or replace function penstock_data.pick_scheduled(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_levels int[],
    p_token text, p_deadline timestamptz, p_now timestamptz, p_limit int
) returns penstock_data.pick
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    -- nack and release compute a time and commit a little later; a floor that follows at this distance still sees them.
    c_grace   constant interval := '1 second';
    v_fair    boolean := p_queue.ordering = 'fair';
    v_all     int[] := coalesce(p_position.levels, '{0}');
    v_floors  timestamptz[];
    v_picked  record;
    v_lapsed  bigint[];
    v_pick    penstock_data.pick;
    v_more    penstock_data.pick;
begin
    v_floors := coalesce(p_position.level_floors, array_fill(p_position.floor, array[cardinality(v_all)]));
    if p_position.floor = '-infinity' then
        v_floors := array_fill(p_position.floor, array[cardinality(v_all)]);
    end if;
    if v_fair then
        perform penstock_data.give_turns(p_queue.id, v_all, v_floors, p_position.level_turns, p_now);
    end if;

    with picked as materialized (
        select s.*
        from unnest(v_all, v_floors, p_position.level_turns) as level(priority, floor, turn)
        cross join lateral (
            (select s.ctid as place, s.message_id, s.attempt, s.lane, s.history, s.priority, s.visible_at, s.rank
            from penstock_data.scheduled s
            where not v_fair and s.queue_id = p_queue.id and s.priority = level.priority and s.rank is null
              and s.visible_at >= level.floor - c_grace and s.visible_at <= p_now
            order by s.visible_at, s.message_id limit p_limit)
            union all
            (select s.ctid as place, s.message_id, s.attempt, s.lane, s.history, s.priority, s.visible_at, s.rank
            from penstock_data.scheduled s
            where v_fair and s.queue_id = p_queue.id and s.priority = level.priority and s.rank is not null
              and s.rank >= coalesce(level.turn, 0)
            order by s.rank, s.message_id limit p_limit)
        ) s
        where level.priority = any (p_levels)
        limit p_limit
    )
    select
        count(*)::int as count,
        array_agg(p.place) as places, array_agg(p.message_id) as ids, array_agg(p.attempt + 1) as attempts, array_agg(p.lane) as lanes,
        jsonb_object_agg(p.message_id, p.history) filter (where p.history is not null) as histories,
        (array_agg(p.priority))[count(*)] as last_priority, (array_agg(p.visible_at))[count(*)] as last_visible_at,
        array_agg(p.priority) as priorities, array_agg(p.rank) as ranks
    into v_picked
    from picked p;

    p_position := penstock_data.with_floors(p_position, p_levels, v_floors, p_now,
        v_picked.count = p_limit, v_picked.last_priority, v_picked.last_visible_at);
    if v_fair and v_picked.count > 0 then
        -- Each level has turns of its own: what is claimed ahead of the others must not end their turns.
        p_position.level_turns := array(
            select greatest(level.turn, 0, (select max(u.rank) from unnest(v_picked.priorities, v_picked.ranks) as u(priority, rank)
                                            where u.priority = level.priority))
            from unnest(v_all, p_position.level_turns) with ordinality as level(priority, turn, place) order by level.place);
        p_position.turn := greatest(p_position.turn, (select max(u.rank) from unnest(v_picked.ranks) as u(rank)));
    end if;
    v_pick.position := p_position;
    if v_picked.count = 0 then
        return v_pick;
    end if;

    -- By place: by their ids, a plan made while the table was small may read all of the queue.
    delete from penstock_data.scheduled s where s.ctid = any (v_picked.places);

    perform penstock_data.check_not_moved(p_queue.topic_id, v_picked.ids);
    v_lapsed := array(
        select u.id
        from unnest(v_picked.ids) as u(id)
        left join lateral (
            select * from penstock_data.messages m where m.topic_id = p_queue.topic_id and m.id = u.id limit 1) m on true
        where m.id is null or least(m.expires_at, m.published_at + p_queue.retention) <= p_now);
    if v_lapsed <> '{}' then
        insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids, lanes)
        select p_queue.id, p_now, (select s.receipt_segment from penstock_data.settings s), 'lapsed', array_agg(u.id),
            case when p_queue.ordering = 'fifo' then array_agg(u.lane) end
        from unnest(v_picked.ids, v_picked.lanes) as u(id, lane)
        where u.id = any (v_lapsed);
    end if;

    insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
    select
        p_queue.id, min(u.id), p_deadline, p_now, p_token, array_agg(u.id order by u.place), array_agg(u.attempt order by u.place),
        case when not p_queue.direct then array_agg(u.lane order by u.place) end, v_picked.histories
    from unnest(v_picked.ids, v_picked.attempts, v_picked.lanes) with ordinality as u(id, attempt, lane, place)
    where u.id <> all (v_lapsed)
    having count(*) > 0
    returning message_ids, attempts into v_pick.message_ids, v_pick.attempts;

    -- What lapsed took places in the batch: fill them, or a consumer would take the queue for empty.
    if v_lapsed <> '{}' and v_picked.count = p_limit then
        v_more := penstock_data.pick_scheduled(p_queue, v_pick.position, p_levels, p_token, p_deadline, p_now, cardinality(v_lapsed));
        v_pick.message_ids := nullif(coalesce(v_pick.message_ids, '{}') || coalesce(v_more.message_ids, '{}'), '{}');
        v_pick.attempts := coalesce(v_pick.attempts, '{}') || coalesce(v_more.attempts, '{}');
        v_pick.position := v_more.position;
    end if;
    return v_pick;
end
$$;

-- The floors after a pick.  Levels that were looked at and had no more are dealt with up to now; the level in which the
-- batch became full up to its last message; the others stay where they were.
create or replace function penstock_data.with_floors(
    p_position penstock_data.positions, p_looked_at int[], p_floors timestamptz[], p_now timestamptz,
    p_full boolean, p_last_priority int, p_last_visible_at timestamptz
) returns penstock_data.positions
language plpgsql as $$
declare
    v_levels int[] := coalesce(p_position.levels, '{0}');
begin
    p_position.level_floors := array(
        select case
            when level.priority <> all (p_looked_at) then level.floor
            when not p_full or level.priority > p_last_priority then p_now
            when level.priority = p_last_priority and p_position.turn is null then p_last_visible_at
            else level.floor
        end
        from unnest(v_levels, p_floors) as level(priority, floor));
    if p_now = all (p_position.level_floors) then
        p_position.level_floors := null;
    end if;
    return p_position;
end
$$;

-- fair: messages that became due get the current turn of their level; they have waited for it already.
create or replace function penstock_data.give_turns(
    p_queue_id bigint, p_levels int[], p_floors timestamptz[], p_turns bigint[], p_now timestamptz
) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    update penstock_data.scheduled s set rank = coalesce(p_turns[array_position(p_levels, s.priority)], 0)
    where s.ctid = any (array(
        select d.ctid
        from unnest(p_levels, p_floors) as level(priority, floor)
        cross join lateral (
            select d.ctid from penstock_data.scheduled d
            where d.queue_id = p_queue_id and d.priority = level.priority and d.rank is null
              and d.visible_at >= level.floor - interval '1 second' and d.visible_at <= p_now
            order by d.visible_at limit 10000) d));
end
$$;
