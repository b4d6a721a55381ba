-- What the fast path of a claim asks.  Plain SQL, stable and without settings of its own, so that the planner puts it
-- into the calling statement.

-- The window to read, and whether nothing wants care: then the queue is plain.
-- A window without gaps (no transaction below its end was open when it was opened) is moved on: it ends before the
-- oldest transaction that is open now.  So it has no gaps either, it leaves no late ones to the next window, and a
-- queue that is nearly empty needs no new window for each message.  Its beginning moves on as well, to the transaction
-- read last: the log is kept from there.
-- alone: there are no slices, which hold older messages than the log.
-- awaited: this consumer is registered as waiting; a claim that finds something ends that.
-- current: the window holds all that can be claimed here; a batch that it does not fill uses it up.
-- first_segment, last_segment: the segments that hold all messages of the window.  Read in the same snapshot as the end
-- of the window: what a snapshot sees was written to segments that its settings name.
-- seen: the snapshot in which all this holds.
-- p_clock: clock_timestamp(), which may not stand in here.
create or replace function penstock_data.fast_path(
    p_queue_id bigint, p_topic_id bigint, p_token text, p_clock timestamptz, p_seconds int
) returns table (
    now timestamptz, deadline timestamptz, first_segment int, last_segment int,
    seq bigint, flagged_from pg_snapshot, full_scan_at timestamptz, attend_at timestamptz, current boolean,
    window_from pg_snapshot, window_to pg_snapshot, last_xid xid8, last_id bigint, plain boolean, alone boolean, awaited boolean, seen pg_snapshot
)
language sql stable as $$
    select
        p_clock + s.clock_shift, p_clock + s.clock_shift + p_seconds * interval '1 second', s.first_segment, s.last_segment, p.seq, p.flagged_from, p.full_scan_at, p.attend_at, g.gapless,
        case when p.last_xid is null then p.window_to
            when g.gapless and p.last_xid >= pg_snapshot_xmax(p.window_from) then format('%1$s:%1$s:', p.last_xid)::pg_snapshot
            else p.window_from end,
        case when g.gapless then format('%1$s:%1$s:', pg_snapshot_xmin(pg_current_snapshot()))::pg_snapshot else p.window_to end,
        case when p.last_xid is null then pg_snapshot_xmax(p.window_to) else p.last_xid end,
        coalesce(p.last_id, 0),
        -- A queue that was made fair after the calling statement had looked at it has a turn.
        p.attend_at > p_clock + s.clock_shift and p.turn is null and p.levels is null and p.level_floors is null and p.flagged_to is null
        and p.ahead is null
        and case when p.last_xid is null then g.gapless else p.last_xid >= pg_snapshot_xmax(p.window_from) end
        and not exists (
            select from penstock_data.flags f where f.topic_id = p_topic_id and f.xid >= pg_snapshot_xmin(p.flagged_from))
        and (
            select true from penstock_data.scheduled d
            where d.queue_id = p_queue_id and d.xid >= pg_snapshot_xmax(p.flagged_from)
            order by d.xid limit 1) is null
        and case when pg_snapshot_xmin(p.flagged_from) = pg_snapshot_xmax(p.flagged_from) then true
            else not penstock_data.given_back_late(p_queue_id, p.flagged_from) end,
        p.slices_from is null,
        exists (
            select from penstock_data.waiting w
            where w.topic_id = p_topic_id and w.until > p_clock + s.clock_shift and w.queue_id = p_queue_id and coalesce(w.token = p_token, true)),
        pg_current_snapshot()
    from penstock_data.positions p
    cross join lateral (select pg_snapshot_xmin(p.window_to) = pg_snapshot_xmax(p.window_to) as gapless) g
    cross join penstock_data.settings s
    where p.queue_id = p_queue_id and s.single order by p.seq desc limit 1
$$;
