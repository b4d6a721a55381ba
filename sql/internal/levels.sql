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
    if p_position.level_floors is not null then
        p_position.level_floors := array(
            select coalesce(p_position.level_floors[array_position(v_old, l)], '-infinity') from unnest(v_levels) l);
    end if;
    if p_position.level_turns is not null then
        p_position.level_turns := array(
            select p_position.level_turns[array_position(v_old, l)] from unnest(v_levels) l);
    end if;
    p_position.levels := v_levels;
    return p_position;
end
$$;

-- Forget the priorities that are no longer in use: no message is scheduled with them, and none is claimed that could be.
create or replace function penstock_data.forget_levels(p_position penstock_data.positions) returns penstock_data.positions
language plpgsql as $$
declare
    v_old int[] := p_position.levels;
begin
    if v_old is null or exists (
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
    p_position.level_floors := case when p_position.level_floors is not null then array(
        select p_position.level_floors[array_position(v_old, l)] from unnest(p_position.levels) with ordinality as u(l, place) order by u.place) end;
    p_position.level_turns := case when p_position.level_turns is not null then array(
        select p_position.level_turns[array_position(v_old, l)] from unnest(p_position.levels) with ordinality as u(l, place) order by u.place) end;
    p_position.levels := nullif(p_position.levels, '{0}');
    return p_position;
end
$$;

-- Append a position.
create or replace function penstock_data.append_position(p_position penstock_data.positions) returns penstock_data.positions
language plpgsql as $$
begin
    p_position.seq := p_position.seq + 1;
    insert into penstock_data.positions select p_position.*;
    return p_position;
end
$$;

-- The newest position of a queue.
create or replace function penstock_data.position_of(p_queue_id bigint) returns setof penstock_data.positions
language sql stable rows 1 as $$
    select * from penstock_data.positions p where p.queue_id = p_queue_id order by p.seq desc limit 1
$$;

-- How many scheduled messages are due that go ahead of plain ones, counted up to p_limit.
create or replace function penstock_data.count_due(p_position penstock_data.positions, p_now timestamptz, p_limit int) returns int
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_levels int[] := coalesce(p_position.levels, '{0}');
    v_floors timestamptz[] := coalesce(p_position.level_floors, array_fill(p_position.floor, array[cardinality(v_levels)]));
    v_count  int;
begin
    select count(*) into v_count
    from (
        select from unnest(v_levels, v_floors) as level(priority, floor)
        cross join lateral (
            select from penstock_data.scheduled s
            where s.queue_id = p_position.queue_id and s.priority = level.priority and s.rank is null
              and s.visible_at >= level.floor - interval '1 second' and s.visible_at <= p_now
            limit p_limit) s
        where level.priority >= 0
        limit p_limit) due;
    return v_count;
end
$$;
