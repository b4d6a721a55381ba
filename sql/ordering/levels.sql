-- Priorities in use by a queue, highest first, with p_new among them.  A level is known before its first message is
-- scheduled, so a claim asks each level for its due messages and never walks over the others.
create or replace function penstock_data.with_levels(p_position penstock_data.positions, p_new int[])
returns penstock_data.positions
language plpgsql as $$
declare
    v_old    int[] := coalesce(p_position.levels, '{0}');
    v_levels int[];
begin
    if p_new is null or p_new <@ v_old then
        return p_position;
    end if;
    v_levels := array(select distinct l from unnest(v_old || p_new) l order by l desc);
    p_position.levels := v_levels;
    return penstock_data.with_places_of(p_position, v_old);
end
$$;

-- The places of the levels after these have changed from p_old; a level that is new begins at the floor.
create or replace function penstock_data.with_places_of(p_position penstock_data.positions, p_old int[])
returns penstock_data.positions
language plpgsql as $$
declare
    v_from int[] := array(
        select array_position(p_old, u.l) from unnest(coalesce(p_position.levels, '{0}')) with ordinality as u(l, place) order by u.place);
begin
    if p_position.level_floors is not null then
        p_position.level_floors := array(
            select coalesce(p_position.level_floors[u.i], p_position.floor) from unnest(v_from) with ordinality as u(i, place) order by u.place);
        p_position.level_floor_ids := array(
            select case when u.i is not null then p_position.level_floor_ids[u.i] end from unnest(v_from) with ordinality as u(i, place) order by u.place);
    end if;
    if p_position.level_turns is not null then
        p_position.level_turns := array(
            select p_position.level_turns[u.i] from unnest(v_from) with ordinality as u(i, place) order by u.place);
        p_position.level_turn_ids := array(
            select p_position.level_turn_ids[u.i] from unnest(v_from) with ordinality as u(i, place) order by u.place);
    end if;
    return p_position;
end
$$;

-- The levels of a queue, highest first, with the place behind which claims go on in each: by due time, and in a fair
-- queue by rank.
create or replace function penstock_data.level_places(p_position penstock_data.positions)
returns table (priority int, floor timestamptz, floor_id bigint, turn bigint, turn_id bigint)
language sql immutable rows 1 as $$
    select l.priority, coalesce(l.floor, p_position.floor), coalesce(l.floor_id, 9223372036854775807), coalesce(l.turn, 0), coalesce(l.turn_id, 0)
    from unnest(
        coalesce(p_position.levels, '{0}'), p_position.level_floors, p_position.level_floor_ids, p_position.level_turns,
        p_position.level_turn_ids) as l(priority, floor, floor_id, turn, turn_id)
$$;

-- Forget the priorities that are no longer in use: no message is scheduled with them, and none is claimed that could
-- be.
create or replace function penstock_data.forget_levels(p_position penstock_data.positions) returns penstock_data.positions
language plpgsql as $$
declare
    v_old int[] := p_position.levels;
begin
    -- Each question apart: an expression locks all the tables that it names, whatever it reads.
    if v_old is null then
        return p_position;
    end if;
    if exists (
        select from penstock_data.claims c where c.queue_id = p_position.queue_id and c.attempts is not null
    ) or exists (select from penstock_data.backlog b where b.queue_id = p_position.queue_id) then
        return p_position;
    end if;
    p_position.levels := array(
        select l from unnest(v_old) l
        where l = 0 or exists (select from penstock_data.scheduled s where s.queue_id = p_position.queue_id and s.priority = l)
        order by l desc);
    if p_position.levels = v_old then
        return p_position;
    end if;
    p_position.levels := nullif(p_position.levels, '{0}');
    return penstock_data.with_places_of(p_position, v_old);
end
$$;

-- Has a queue notes of messages claimed ahead?  True or null, as positions.ahead says it.
create or replace function penstock_data.has_notes(p_queue_id bigint) returns boolean
language plpgsql stable as $$
begin
    return nullif(exists (select from penstock_data.claimed_ahead a where a.queue_id = p_queue_id), false);
end
$$;

-- Append a position.  Not for claims: it looks for messages that were claimed ahead.
create or replace function penstock_data.append_position(p_position penstock_data.positions) returns penstock_data.positions
language plpgsql as $$
begin
    p_position.seq := p_position.seq + 1;
    p_position.ahead := penstock_data.has_notes(p_position.queue_id);
    insert into penstock_data.positions select p_position.*;
    return p_position;
end
$$;

-- The newest position of a queue.
create or replace function penstock_data.position_of(p_queue_id bigint) returns setof penstock_data.positions
language sql stable rows 1 as $$
    select * from penstock_data.positions p where p.queue_id = p_queue_id order by p.seq desc limit 1
$$;

-- The same for those who ask what a queue has not read: a message may have been claimed ahead since the position was
-- written.
create or replace function penstock_data.seen_position(p_queue_id bigint) returns penstock_data.positions
language plpgsql stable as $$
declare
    v_position penstock_data.positions;
begin
    select * into v_position from penstock_data.position_of(p_queue_id);
    v_position.ahead := penstock_data.has_notes(p_queue_id);
    return v_position;
end
$$;

-- How many scheduled messages are due that go ahead of plain ones, counted up to p_limit.
create or replace function penstock_data.count_due(p_position penstock_data.positions, p_now timestamptz, p_limit int) returns int
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_count int;
begin
    select count(*) into v_count
    from (
        select from penstock_data.level_places(p_position) level
        cross join lateral (
            select from penstock_data.scheduled s
            where s.queue_id = p_position.queue_id and s.priority = level.priority and s.rank is null
              and (s.visible_at, s.message_id) > (level.floor, level.floor_id) and s.visible_at <= p_now
            order by s.visible_at, s.message_id limit p_limit) s
        where level.priority >= 0
        limit p_limit) due;
    return v_count;
end
$$;
