-- The seven words for where a message is in a queue, and the only place that decides between them.
--   waiting   due, and a claim is all that it lacks
--   blocked   fifo: due, but a message ahead of it with the same key is claimed, delayed or retrying
--   delayed   not due yet, and never attempted
--   retrying  not due yet, and attempted before
--   claimed, done (acked or lapsed), dead
-- The first four are pending.  docs/concepts/life-of-a-message.md

-- The state of a pending message.
create or replace function penstock_data.pending_state(p_due boolean, p_attempt int, p_blocked boolean) returns text
language sql immutable as $$
    select case when p_due then case when p_blocked then 'blocked' else 'waiting' end
        when p_attempt > 0 then 'retrying' else 'delayed' end
$$;

-- Since when a message with a place of its own is due.  visible_at is also its place in the schedule, and later than
-- that when the queue read the message late, or promoted it behind the head of its lane: then the log knows better.
-- Not for messages that came back (they have an attempt, a history, or the xid of the transaction that released them),
-- nor for those that were delivered to the queue alone, whose xid is 3.
create or replace function penstock_data.due_since(
    p_visible_at timestamptz, p_fresh boolean, p_xid xid8, p_published_at timestamptz, p_deliver_after timestamptz
) returns timestamptz
language sql immutable as $$
    select case when p_fresh and p_xid <> '3' then least(p_visible_at, greatest(p_published_at, p_deliver_after)) else p_visible_at end
$$;

-- fifo: the place of an unread message in its lane.  It is behind everything that the queue has read, and the window
-- that is being read comes before the next one.
create or replace function penstock_data.unread_place(p_window_to pg_snapshot, p_xid xid8, p_id bigint) returns bigint
language sql immutable as $$
    select 4611686018427387904 + case when pg_visible_in_snapshot(p_xid, p_window_to) then 0 else 2305843009213693952 end + p_id
$$;

-- fifo: what holds up the messages behind it, the first of each lane: claimed, delayed or retrying, and until when.  A
-- claim that is over holds up nothing, because the next claim takes it back.  place: where it is in its lane, compared
-- with the rank in backlog or unread_place; without runs, what is claimed or scheduled is the head, at 0.
-- p_lanes: only these; null: all.  p_limit bounds the rows of each kind that are visited; null: all are.
create or replace function penstock_data.lane_holders(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_now timestamptz, p_lanes text[], p_limit int
)
returns table (lane text, place bigint, message_id bigint, state text, token text, until timestamptz)
language plpgsql stable rows 1000
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select distinct on (h.lane) h.lane, coalesce(b.rank, h.place), h.message_id, h.state, h.token, h.until
    from (
        select u.lane, 0::bigint as place, u.id as message_id, 'claimed' as state, c.token, c.deadline as until, p_queue.runs as is_out
        from (
            select c.* from penstock_data.claims c where c.queue_id = p_queue.id and c.token <> '' order by c.token, c.first_id limit p_limit) c
        cross join lateral unnest(c.message_ids, c.lanes) as u(id, lane)
        where c.deadline > p_now
        union all
        select s.lane, 0, s.message_id, penstock_data.pending_state(false, s.attempt, false), null, s.visible_at, p_queue.runs
        from penstock_data.level_places(p_position) level
        cross join lateral (
            select s.* from penstock_data.scheduled s
            where s.queue_id = p_queue.id and s.priority = level.priority and s.rank is null and s.visible_at > p_now
            order by s.visible_at, s.message_id limit p_limit) s
        union all
        select b.lane, b.rank, b.message_id, penstock_data.pending_state(false, b.attempt, false), null, b.visible_at, false
        from (
            select b.* from penstock_data.backlog b
            where p_lanes is null and b.queue_id = p_queue.id and not b.held order by b.lane, b.rank limit p_limit) b
        where b.visible_at > p_now
        union all
        select b.lane, b.rank, b.message_id, penstock_data.pending_state(false, b.attempt, false), null, b.visible_at, false
        from (
            select b.*
            from unnest(p_lanes) as l(lane)
            cross join lateral (
                select b.* from penstock_data.backlog b
                where b.queue_id = p_queue.id and b.lane = l.lane and not b.held order by b.rank limit p_limit) b
            limit p_limit) b
        where b.visible_at > p_now
        union all
        select coalesce(m.key, ''), penstock_data.unread_place(p_position.window_to, m.xid, m.id), m.id, 'delayed', null, m.deliver_after, false
        from (
            select m.* from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_queue.topic_id and m.flagged and m.xid >= pg_snapshot_xmin(p_position.window_from)
            order by m.xid, m.id limit p_limit) m
        where m.deliver_after > p_now and penstock_data.is_unread(p_queue, p_position, m)
    ) h
    left join lateral (
        select b.rank from penstock_data.backlog b
        where h.is_out and b.queue_id = p_queue.id and b.message_id = h.message_id and b.held order by b.rank limit 1) b on true
    where p_lanes is null or h.lane in (select unnest(p_lanes))
    order by h.lane, coalesce(b.rank, h.place);
end
$$;

-- How many messages of a queue are pending, by state.  p_limit bounds the rows that are visited in the log, in the
-- schedule and in the backlog, each; null: all are counted.
-- oldest_waiting_at: since when something is due and not claimed, waiting or blocked; oldest_blocked_at: the same of
-- what is blocked.  Where many have a place of their own, the log is asked about the first of them only.
-- blocked_by: what holds up the first that is blocked.  oldest_unread_at: when the oldest unread message was published.
create or replace function penstock_data.count_states(p_queue_id bigint, p_now timestamptz, p_limit int)
returns table (
    waiting bigint, blocked bigint, delayed bigint, retrying bigint, oldest_waiting_at timestamptz, oldest_blocked_at timestamptz,
    blocked_by bigint, blocked_by_state text, blocked_by_token text, blocked_until timestamptz, oldest_unread_at timestamptz
)
language plpgsql stable rows 1
set enable_nestloop = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    c_asked    constant int := 100;
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
begin
    select * into v_queue from penstock_data.queues q where q.id = p_queue_id;
    v_position := penstock_data.seen_position(p_queue_id);
    return query
    with holders as materialized (
        select h.* from penstock_data.lane_holders(v_queue, v_position, p_now, null, p_limit) h where v_queue.ordering = 'fifo'
    ), pending as (
        select u.id as message_id, 0 as attempt, u.deliver_after > p_now is not true as due, greatest(u.published_at, u.deliver_after) as due_at,
            u.published_at as unread_at, case when u.place is not null then coalesce(u.key, '') end as lane, u.place
        from penstock_data.unread_some(p_queue_id, 0, p_limit) u where p_limit is not null and u.unread
        union all
        select m.id, 0, m.deliver_after > p_now is not true, greatest(m.published_at, m.deliver_after), m.published_at,
            case when v_queue.ordering = 'fifo' then coalesce(m.key, '') end, penstock_data.unread_place(v_position.window_to, m.xid, m.id)
        from penstock_data.unread_messages(p_queue_id) m where p_limit is null
        union all
        select s.message_id, s.attempt, s.visible_at <= p_now, s.visible_at, null, s.lane, coalesce(b.rank, 0)
        from (
            select s.* from penstock_data.scheduled s where s.queue_id = p_queue_id order by s.message_id limit p_limit) s
        left join lateral (
            select b.rank from penstock_data.backlog b
            where v_queue.runs and b.queue_id = p_queue_id and b.message_id = s.message_id and b.held order by b.rank limit 1) b on true
        union all
        select b.message_id, b.attempt, b.visible_at <= p_now, b.visible_at, null, b.lane, b.rank
        from (
            select b.* from penstock_data.backlog b where b.queue_id = p_queue_id and not b.held order by b.lane, b.rank limit p_limit) b
        union all
        select s.message_id, s.attempt, true, s.visible_at, null, null, 0 from penstock_data.sliced_messages(p_queue_id) s
    ), kinds as (
        -- Grouped before they are named: a few kinds, however many messages.
        select p.due, p.attempt > 0 as attempted, h.message_id is not null as held, count(*) as count, min(p.due_at) as oldest,
            min(p.unread_at) as oldest_unread, min(array[p.message_id, h.message_id]) filter (where h.message_id is not null) as first_held
        from pending p left join holders h on h.lane = p.lane and h.place < p.place
        group by 1, 2, 3
    ), counted as (
        select coalesce(sum(k.count) filter (where k.state = 'waiting'), 0)::bigint as waiting,
            coalesce(sum(k.count) filter (where k.state = 'blocked'), 0)::bigint as blocked,
            coalesce(sum(k.count) filter (where k.state = 'delayed'), 0)::bigint as delayed,
            coalesce(sum(k.count) filter (where k.state = 'retrying'), 0)::bigint as retrying,
            min(k.oldest) filter (where k.due) as oldest, min(k.oldest) filter (where k.state = 'blocked') as oldest_blocked,
            min(k.oldest_unread) as oldest_unread, min(k.first_held) filter (where k.state = 'blocked') as first_blocked
        from (select k.*, penstock_data.pending_state(k.due, k.attempted::int, k.held) as state from kinds k) k
    ), fresh as (
        (select s.message_id, s.visible_at, s.lane, coalesce(b.rank, 0) as place
        from (
            select s.* from penstock_data.scheduled s where s.queue_id = p_queue_id order by s.message_id limit p_limit) s
        left join lateral (
            select b.rank from penstock_data.backlog b
            where v_queue.runs and b.queue_id = p_queue_id and b.message_id = s.message_id and b.held order by b.rank limit 1) b on true
        where s.visible_at <= p_now and s.attempt = 0 and s.history is null and s.xid is null
        order by s.message_id limit c_asked)
        union all
        (select b.message_id, b.visible_at, b.lane, b.rank
        from (
            select b.* from penstock_data.backlog b where b.queue_id = p_queue_id and not b.held order by b.message_id limit p_limit) b
        where b.visible_at <= p_now and b.attempt = 0 and b.history is null
        order by b.message_id limit c_asked)
        union all
        (select s.message_id, s.visible_at, null, 0 from penstock_data.sliced_messages(p_queue_id) s where s.attempt = 0 limit c_asked)
    ), known as (
        select min(f.due_at) as oldest, min(f.due_at) filter (where h.lane is not null) as oldest_blocked
        from (
            select f.lane, f.place, penstock_data.due_since(f.visible_at, true, m.xid, m.published_at, m.deliver_after) as due_at
            from fresh f
            cross join lateral (
                select * from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = f.message_id limit 1) m) f
        left join holders h on h.lane = f.lane and h.place < f.place
    )
    select c.waiting, c.blocked, c.delayed, c.retrying, least(c.oldest, k.oldest), least(c.oldest_blocked, k.oldest_blocked),
        h.message_id, h.state, h.token, h.until, c.oldest_unread
    from counted c cross join known k
    left join holders h on h.message_id = c.first_blocked[2];
end
$$;

-- The accounting of a queue, exact: pending + claimed + done + dead = published since it began.
create or replace function penstock_data.count_queue(p_queue_id bigint)
returns table (
    waiting bigint, blocked bigint, delayed bigint, retrying bigint, pending bigint, processing bigint, completed bigint, dead bigint,
    oldest_pending_at timestamptz, oldest_waiting_at timestamptz
)
language sql stable rows 1 as $$
    select p.waiting, p.blocked, p.delayed, p.retrying, p.waiting + p.blocked + p.delayed + p.retrying, c.count, d.count, l.count,
        least(p.oldest_unread_at, s.oldest), p.oldest_waiting_at
    from
        penstock_data.count_states(p_queue_id, penstock_data.clock(), null) p,
        (select min(m.published_at) as oldest
         from (
             select s.message_id from penstock_data.scheduled_messages(p_queue_id) s
             union all select s.message_id from penstock_data.sliced_messages(p_queue_id) s) s
         join penstock_data.queues q on q.id = p_queue_id
         join penstock_data.messages m on m.topic_id = q.topic_id and m.id = s.message_id) s,
        (select coalesce(sum(cardinality(c.message_ids)), 0)::bigint as count from penstock_data.claims c
         where c.queue_id = p_queue_id and c.token <> '') c,
        (select coalesce(sum(cardinality(r.message_ids)), 0)::bigint as count from penstock_data.receipts r
         where r.queue_id = p_queue_id and r.outcome in ('acked', 'lapsed')) d,
        (select count(*) from penstock_data.dead_letters l where l.queue_id = p_queue_id) l
$$;

-- The pending messages of a queue with an id above p_after and up to p_through, each with its state, since or until
-- when it is due, and what blocks it.  With p_limit a page of them in the order of ids, found at a bounded cost.
create or replace function penstock_data.pending_messages(p_queue_id bigint, p_after bigint, p_through bigint, p_limit int)
returns table (
    message_id bigint, state text, attempt int, due_at timestamptz, history jsonb,
    blocked_by bigint, blocked_by_state text, blocked_by_token text, blocked_until timestamptz
)
language plpgsql stable rows 100
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_visited  int := case when p_limit is not null or p_through - p_after = 1 then 10001 end;
    v_now      timestamptz := penstock_data.clock();
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
begin
    select * into v_queue from penstock_data.queues q where q.id = p_queue_id;
    v_position := penstock_data.seen_position(p_queue_id);
    return query
    with pending as materialized (
        select m.id as message_id, 0 as attempt, m.deliver_after > v_now is not true as due, greatest(m.published_at, m.deliver_after) as due_at,
            null::jsonb as history, coalesce(m.key, '') as lane, penstock_data.unread_place(v_position.window_to, m.xid, m.id) as place
        from (
            select m.* from penstock_data.unread_page(p_queue_id, p_after, p_limit) m where p_limit is not null and m.id <= p_through
            union all
            select m.* from penstock_data.messages m
            where p_limit is null and m.segment > 0 and m.topic_id = v_queue.topic_id and m.id > p_after and m.id <= p_through
              and penstock_data.is_unread(v_queue, v_position, m)) m
        union all
        select s.message_id, s.attempt, s.visible_at <= v_now,
            penstock_data.due_since(s.visible_at, s.attempt = 0 and s.history is null and s.xid is null, m.xid, m.published_at, m.deliver_after),
            s.history, s.lane, coalesce(b.rank, 0)
        from (
            select s.* from penstock_data.scheduled s
            where s.queue_id = p_queue_id and s.message_id > p_after and s.message_id <= p_through order by s.message_id limit p_limit) s
        left join lateral (
            select * from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = s.message_id limit 1) m on true
        left join lateral (
            select b.rank from penstock_data.backlog b
            where v_queue.runs and b.queue_id = p_queue_id and b.message_id = s.message_id and b.held order by b.rank limit 1) b on true
        union all
        select b.message_id, b.attempt, b.visible_at <= v_now,
            penstock_data.due_since(b.visible_at, b.attempt = 0 and b.history is null, m.xid, m.published_at, m.deliver_after),
            b.history, b.lane, b.rank
        from (
            select b.* from penstock_data.backlog b
            where b.queue_id = p_queue_id and b.message_id > p_after and b.message_id <= p_through and not b.held
            order by b.message_id limit p_limit) b
        left join lateral (
            select * from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = b.message_id limit 1) m on true
        union all
        select s.message_id, s.attempt, true, penstock_data.due_since(s.visible_at, s.attempt = 0, m.xid, m.published_at, m.deliver_after),
            s.history, s.lane, 0
        from penstock_data.sliced_messages(p_queue_id) s
        left join lateral (
            select * from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = s.message_id limit 1) m on true
        where s.message_id > p_after and s.message_id <= p_through
    ), page as materialized (
        select p.* from pending p order by p.message_id limit p_limit
    ), holders as materialized (
        select h.*
        from penstock_data.lane_holders(v_queue, v_position, v_now, array(select distinct p.lane from page p), v_visited) h
        where v_queue.ordering = 'fifo'
    )
    select p.message_id, penstock_data.pending_state(p.due, p.attempt, h.message_id is not null), p.attempt, p.due_at, p.history,
        h.message_id, h.state, h.token, h.until
    from page p left join holders h on h.lane = p.lane and h.place < p.place and p.due
    order by p.message_id;
end
$$;
