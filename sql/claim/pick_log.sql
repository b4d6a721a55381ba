-- Direct queues: claims from the log, behind the position.  docs/internals/engine.md, "Windows"

-- Is a message of the log in the range of a window, behind (last_xid, last_id)?  Plain SQL, as seen_with_care.
create or replace function penstock_data.in_range(p_xid xid8, p_id bigint, last_xid xid8, last_id bigint, window_to pg_snapshot)
returns boolean
language sql stable as $$
    select (p_xid, p_id) > (last_xid, last_id) and p_xid < pg_snapshot_xmax(window_to) and pg_visible_in_snapshot(p_xid, window_to)
$$;

-- Of messages read from the log, let those lapse whose time is over; yields the others, in their order.
create or replace function penstock_data.drop_lapsed(p_queue penstock_data.queues, p_ids bigint[], p_now timestamptz) returns bigint[]
language plpgsql as $$
declare
    v_lapsed bigint[] := array(
        select u.id from unnest(p_ids) as u(id)
        cross join lateral (
            select from penstock_data.messages m
            where m.topic_id = p_queue.topic_id and m.id = u.id and least(m.expires_at, m.published_at + p_queue.retention) <= p_now limit 1) m);
begin
    if v_lapsed <> '{}' then
        insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids)
        select p_queue.id, p_now, s.receipt_segment, 'lapsed', v_lapsed from penstock_data.settings s;
    end if;
    return array(select u.id from unnest(p_ids) with ordinality as u(id, place) where u.id <> all (v_lapsed) order by u.place);
end
$$;

-- Claim messages that were read from the log at the position, p_limit at most, and move the position behind them:
-- p_look were looked for, and p_ids, p_xids are what was found.  lapsed: the time of some of them is over.  The
-- position does not move when another transaction has locked the first message.  It has no last_xid when all of p_ids
-- were passed and there are no more. attempts is null when exactly the first messages of p_ids were claimed.
create or replace function penstock_data.claim_read(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_token text, p_deadline timestamptz, p_now timestamptz,
    p_limit int, p_look int, p_ids bigint[], p_xids xid8[], p_lapsed boolean
) returns penstock_data.pick
language plpgsql as $$
declare
    v_pick   penstock_data.pick;
    v_taken  bigint[];
    v_passed int;
begin
    if p_ids is not null then
        select a.taken, a.passed into v_taken, v_passed from penstock_data.pass_ahead(p_queue.id, p_ids, p_limit, p_position.ahead, true,
            case when p_position.last_xid < pg_snapshot_xmax(p_position.window_from)
                or pg_snapshot_xmin(p_position.window_to) < pg_snapshot_xmax(p_position.window_to) then p_xids end) a;
        v_pick.message_ids := v_taken;
        if p_lapsed then
            v_pick.message_ids := penstock_data.drop_lapsed(p_queue, v_pick.message_ids, p_now);
        end if;
        if p_lapsed or v_taken <> p_ids[:cardinality(v_taken)] then
            v_pick.attempts := array_fill(1, array[cardinality(v_pick.message_ids)]);
        end if;
        if v_pick.message_ids <> '{}' then
            insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids)
            values (p_queue.id, (select min(id) from unnest(v_pick.message_ids) id), p_deadline, p_now, p_token, v_pick.message_ids);
        end if;
    end if;
    if p_ids is null or v_passed = cardinality(p_ids) and v_passed < p_look then
        p_position.last_xid := null;
        p_position.last_id := null;
    elsif v_passed > 0 then
        p_position.last_xid := p_xids[v_passed];
        p_position.last_id := p_ids[v_passed];
    end if;
    v_pick.position := p_position;
    return v_pick;
end
$$;

-- How many messages a claim looks at: more than it wants when some are claimed ahead.
create or replace function penstock_data.look_size(p_position penstock_data.positions, p_limit int) returns int
language sql immutable as $$
    select p_limit + case when p_position.ahead then 1000 else 0 end
$$;

-- Claim the late messages of a window, those of transactions that were open when it began.  They come before the rest
-- of the window, because their xids are lower.  message_ids is null when there are none.  Under the queue's lock.
create or replace function penstock_data.pick_late(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_token text, p_deadline timestamptz, p_now timestamptz, p_limit int
) returns penstock_data.pick
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_look int := penstock_data.look_size(p_position, p_limit);
    v_read record;
    v_pick penstock_data.pick;
begin
    -- One xid as a range: docs/internals/windows.md, "Two scans".
    select array_agg(m.id) as ids, array_agg(m.xid) as xids, bool_or(m.lapsed) as lapsed into v_read
    from (
        select m.id, m.xid, m.lapsed
        from unnest(penstock_data.late_xids(p_position.window_from, p_position.window_to)) as late(xid)
        cross join lateral (
            select m.id, m.xid, least(m.expires_at, m.published_at + p_queue.retention) <= p_now as lapsed
            from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_queue.topic_id and not m.flagged and m.xid <= late.xid
              and (m.xid, m.id) > (late.xid, case when late.xid = p_position.last_xid then p_position.last_id else 0 end)
            order by m.xid, m.id limit v_look) m
        where late.xid >= p_position.last_xid
        limit v_look
    ) m;
    v_pick := penstock_data.claim_read(
        p_queue, p_position, p_token, p_deadline, p_now, p_limit, v_look, v_read.ids, v_read.xids, v_read.lapsed);
    if v_pick.message_ids is not null then
        -- range_rows does not find them, so their attempts have to be named.
        v_pick.attempts := array_fill(1, array[cardinality(v_pick.message_ids)]);
    end if;
    p_position := v_pick.position;
    if p_position.last_xid is null then
        -- The range of the window comes next.
        p_position.last_xid := pg_snapshot_xmax(p_position.window_from);
        p_position.last_id := 0;
        v_pick.position := p_position;
    end if;
    return v_pick;
end
$$;

-- Claim the next messages of the range of a window.  message_ids is null when there are none.  attempts is null when
-- none has lapsed or was passed over: then range_rows yields exactly what was claimed.  Under the queue's lock.
create or replace function penstock_data.pick_range(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_token text, p_deadline timestamptz, p_now timestamptz, p_limit int
) returns penstock_data.pick
language plpgsql as $$
declare
    v_look int := penstock_data.look_size(p_position, p_limit);
    v_read record;
    v_pick penstock_data.pick;
begin
    select array_agg(m.id) as ids, array_agg(m.xid) as xids, bool_or(m.lapsed) as lapsed into v_read
    from (
        select m.xid, m.id, least(m.expires_at, m.published_at + p_queue.retention) <= p_now as lapsed
        from penstock_data.messages m
        where m.segment > 0 and m.topic_id = p_queue.topic_id and not m.flagged
          and penstock_data.in_range(m.xid, m.id, p_position.last_xid, p_position.last_id, p_position.window_to)
        order by m.xid, m.id limit v_look) m;
    v_pick := penstock_data.claim_read(
        p_queue, p_position, p_token, p_deadline, p_now, p_limit, v_look, v_read.ids, v_read.xids, v_read.lapsed);
    p_position := v_pick.position;
    if p_position.last_xid is null then
        p_position.window_from := p_position.window_to;     -- the window is used up
        v_pick.position := p_position;
    end if;
    return v_pick;
end
$$;

-- The first messages of the range of a window, as their consumer sees them: faster than claimed_rows, which looks up
-- each.  Plain SQL, as seen_with_care.
create or replace function penstock_data.range_rows(
    p_topic_id bigint, last_xid xid8, last_id bigint, window_to pg_snapshot, p_count int, p_deadline timestamptz
) returns setof penstock_data.claimed_message
language sql stable as $$
    select m.id, m.payload, m.headers, m.key, 0, 1, p_deadline, m.published_at, m.correlation_id, m.tenant_id
    from penstock_data.messages m
    where m.segment > 0 and m.topic_id = p_topic_id and not m.flagged
      and penstock_data.in_range(m.xid, m.id, last_xid, last_id, window_to)
    order by m.xid, m.id limit p_count
$$;
