-- Claims ahead of the position: what a claim takes while another transaction has the claim lock for long.
-- The position of a claim can't be seen before it commits.  So each claim locks what it takes from the log in
-- message_locks: its messages one by one, or a mark at the last of many.  A claim ahead takes messages that the
-- position has not passed, that lie behind all marks and that no other transaction has locked.  It notes them in
-- claimed_ahead.  The claim that moves the position passes over what is noted, and stops before what is locked.  What
-- else a claim ahead takes has rows of its own to lock: due messages of the schedule, and claims past their deadline.
--
-- A mark is enough while no claim goes ahead.  The claim that moves the position sets the mark, then looks for the
-- presence of claims ahead.  A claim ahead locks the presence, then looks for marks.  So one of the two sees the other,
-- and locks single messages.

-- The row of message_locks that stands for a message of a queue.  Messages next to each other have rows of their own.
create or replace function penstock_data.message_slot(p_queue_id bigint, p_message_id bigint) returns int
language sql immutable as $$
    select (p_message_id + p_queue_id % 4099 * 4096 & 16383)::int
$$;

-- The row that stands for the mark at a message.
create or replace function penstock_data.mark_slot(p_queue_id bigint, p_message_id bigint) returns int
language sql immutable as $$
    select 16384 + penstock_data.message_slot(p_queue_id, p_message_id)
$$;

-- The rows that stand for the marks of messages taken: one at every 256th, and one at the last.
-- p_xids: the window has gaps, in which others may find messages that were not there before; then also one at the last
-- of each transaction, which leaves no gap within it.  In PL/pgSQL, because its plan is kept.
create or replace function penstock_data.mark_slots(p_queue_id bigint, p_ids bigint[], p_xids xid8[]) returns int[]
language plpgsql immutable as $$
begin
    return array(
        select distinct penstock_data.mark_slot(p_queue_id, u.id)
        from unnest(p_ids, p_xids) with ordinality as u(id, xid, place)
        where u.place % 256 = 0 or u.place = cardinality(p_ids) or u.xid <> p_xids[u.place + 1]);
end
$$;

-- The row that stands for the gate of a queue (lock_queue), and the one for the presence of claims ahead.
create or replace function penstock_data.gate_slot(p_queue_id bigint) returns int
language sql immutable as $$
    select (-1 - (p_queue_id & 1023))::int
$$;

create or replace function penstock_data.presence_slot(p_queue_id bigint) returns int
language sql immutable as $$
    select (-1025 - (p_queue_id & 1023))::int
$$;

-- Which of these rows has another transaction locked?  The locks that tell are let go at once: they would keep others
-- from closing a gate or setting a mark.
create or replace function penstock_data.locked_slots(p_slots int[]) returns int[]
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    v_free int[];
begin
    begin
        v_free := array(select l.slot from penstock_data.message_locks l where l.slot = any (p_slots) for key share skip locked);
        raise sqlstate 'PS000';
    exception when sqlstate 'PS000' then
        null;
    end;
    return array(select distinct s from unnest(p_slots) s where s not in (select unnest(v_free)));
end
$$;

-- Is the gate of a queue closed?
create or replace function penstock_data.gate_is_closed(p_queue_id bigint) returns boolean
language plpgsql as $$
begin
    return penstock_data.locked_slots(array[penstock_data.gate_slot(p_queue_id)]) <> '{}';
end
$$;

-- May a claim go ahead of the position?  Not while the claim lock is held alone, nor while a call waits for it alone.
-- Locks: the claim lock, as those do that go ahead, and the presence, until the transaction ends.
create or replace function penstock_data.may_claim_ahead(p_queue_name text) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    v_id bigint := (select q.id from penstock_data.queues q where q.name = p_queue_name and not q.runs);
begin
    if v_id is null or penstock_data.gate_is_closed(v_id) then
        return false;
    end if;
    perform from penstock_data.claim_locks l where l.queue_id = v_id for key share skip locked;
    if not found then
        return false;
    end if;
    perform from penstock_data.message_locks l where l.slot = penstock_data.presence_slot(v_id) for key share skip locked;
    return found;
end
$$;

-- Lock messages of a queue, p_limit at most, without waiting.  Yields those that it has locked, in their order.
create or replace function penstock_data.lock_messages(p_queue_id bigint, p_ids bigint[], p_limit int) returns bigint[]
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
begin
    return array(
        select u.id
        from (select u.id, u.place from unnest(p_ids) with ordinality as u(id, place) order by u.place) u
        join penstock_data.message_locks l on l.slot = penstock_data.message_slot(p_queue_id, u.id)
        order by u.place limit p_limit
        for update of l skip locked);
end
$$;

-- Lock messages that a claim takes from the log, in the order in which it is read, by marks.  p_xids as in mark_slots.
-- False: claims ahead are or were about, so single messages have to be locked.
create or replace function penstock_data.mark_messages(p_queue_id bigint, p_ids bigint[], p_xids xid8[]) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    v_slots int[] := penstock_data.mark_slots(p_queue_id, p_ids, p_xids);
begin
    if cardinality(v_slots) > cardinality(array(
        select l.slot from penstock_data.message_locks l where l.slot = any (v_slots) for update skip locked))
    then
        return false;
    end if;
    return (select l.xmax = '0' from penstock_data.message_locks l where l.slot = penstock_data.presence_slot(p_queue_id));
end
$$;

-- Forget that there were claims ahead, if none is under way.  Under the claim lock.
-- Not more than once in a second: while a snapshot is held, each look at the row walks over all versions of it.
create or replace function penstock_data.renew_presence(p_queue_id bigint) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    c_often constant int := 1;
    v_now   int := extract(epoch from clock_timestamp())::bigint & 2147483647;
begin
    if (
        select l.xmax <> '0' and l.renewed not between v_now - c_often and v_now
        from penstock_data.message_locks l where l.slot = penstock_data.presence_slot(p_queue_id))
    then
        begin
            perform from penstock_data.message_locks l where l.slot = penstock_data.presence_slot(p_queue_id) for update nowait;
            raise sqlstate 'PS000';
        exception
            when lock_not_available then
                return;
            when sqlstate 'PS000' then
                update penstock_data.message_locks l set renewed = v_now where l.slot = penstock_data.presence_slot(p_queue_id);
        end;
    end if;
end
$$;

-- Of messages that the position comes to, in the order in which they are read, the first p_limit that a claim may take,
-- locked; passed: how many the position may pass, the noted ones among them.  It stops before the first that another
-- transaction has locked.  p_noted: some may be noted.  p_marks: marks may stand for them; p_xids as in mark_slots.
create or replace function penstock_data.pass_ahead(
    p_queue_id bigint, p_ids bigint[], p_limit int, p_noted boolean, p_marks boolean, p_xids xid8[], out taken bigint[], out passed int
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_noted  bigint[];
    v_locked bigint[];
begin
    if p_marks and p_noted is null and cardinality(p_ids) <= p_limit and penstock_data.mark_messages(p_queue_id, p_ids, p_xids) then
        taken := p_ids;
        passed := cardinality(p_ids);
        return;
    end if;
    v_noted := penstock_data.noted_ahead(p_queue_id, p_ids);
    taken := array(
        select u.id from unnest(p_ids) with ordinality as u(id, place)
        where u.id not in (select unnest(v_noted)) order by u.place limit p_limit);
    v_locked := penstock_data.lock_messages(p_queue_id, taken, p_limit);
    -- Noted and committed before we had the lock.
    v_noted := v_noted || penstock_data.noted_ahead(p_queue_id, taken);
    select coalesce(min(u.place) - 1, cardinality(p_ids)) into passed
    from unnest(p_ids) with ordinality as u(id, place)
    where u.id not in (select unnest(v_noted)) and u.id not in (select unnest(v_locked));
    taken := array(
        select u.id from unnest(p_ids[:passed]) with ordinality as u(id, place)
        where u.id not in (select unnest(v_noted)) order by u.place);
    if p_marks and v_noted = '{}' and passed = cardinality(p_ids) then
        perform penstock_data.renew_presence(p_queue_id);
    end if;
end
$$;

-- Those of some messages that are noted as claimed ahead.
create or replace function penstock_data.noted_ahead(p_queue_id bigint, p_ids bigint[]) returns bigint[]
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    return array(
        select a.message_id from penstock_data.claimed_ahead a
        where a.queue_id = p_queue_id and a.message_id in (select unnest(p_ids)));
end
$$;

-- Messages have entered a queue that is not direct: forget those notes.
create or replace function penstock_data.forget_notes(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_ids bigint[], p_now timestamptz
) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    if p_queue.ordering = 'fifo' then
        perform penstock_data.enter_noted(p_queue.id, p_position, p_now);
    end if;
    delete from penstock_data.claimed_ahead a where a.queue_id = p_queue.id and a.message_id in (select unnest(p_ids));
end
$$;

-- fifo: the lanes of messages that were claimed ahead are busy, until claims have learnt from a receipt that they are
-- finished.  Asked before anything enters a lane.  Under the queue's lock.
create or replace function penstock_data.enter_noted(p_queue_id bigint, p_position penstock_data.positions, p_now timestamptz)
returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_lanes text[];
begin
    if not exists (select from penstock_data.claimed_ahead a where a.queue_id = p_queue_id and not a.entered) then
        return;
    end if;
    v_lanes := array(
        select a.lane
        from penstock_data.claimed_ahead a
        where a.queue_id = p_queue_id and not a.entered and (
            exists (select from penstock_data.claims c where c.queue_id = p_queue_id and c.message_ids @> array[a.message_id])
            or exists (select from penstock_data.scheduled s where s.queue_id = p_queue_id and s.message_id = a.message_id)
            or exists (
                select from penstock_data.receipts r
                where r.queue_id = p_queue_id and r.xid >= pg_snapshot_xmin(p_position.receipts_from)
                  and not pg_visible_in_snapshot(r.xid, p_position.receipts_from) and r.message_ids @> array[a.message_id])));
    update penstock_data.claimed_ahead a set entered = true where a.queue_id = p_queue_id and not a.entered;
    with lanes as materialized (
        select e.lane, l.ctid as place, coalesce(l.last_rank, 0) as last_rank
        from unnest(v_lanes) as e(lane)
        left join lateral (
            select l.ctid, l.busy, l.last_rank from penstock_data.lanes l
            where l.queue_id = p_queue_id and l.lane = e.lane order by l.seq desc limit 1) l on true
        where l.busy is not true
    ), superseded as (
        delete from penstock_data.lanes l where l.ctid = any (array(select o.place from lanes o))
    )
    insert into penstock_data.lanes (queue_id, lane, busy, last_rank, changed_at)
    select p_queue_id, l.lane, true, l.last_rank, p_now from lanes l;
end
$$;

-- Has the position of a direct queue passed this message of the log?  Plain SQL, so that the planner puts it into the
-- statement.
create or replace function penstock_data.has_passed(p_position penstock_data.positions, p_xid xid8, p_id bigint) returns boolean
language sql stable as $$
    select pg_visible_in_snapshot(p_xid, p_position.window_to)
        and (p_position.last_xid is null or pg_visible_in_snapshot(p_xid, p_position.window_from)
            or (p_xid, p_id) <= (p_position.last_xid, p_position.last_id))
$$;

-- The position after a claim has moved it: forget the notes that it has passed.  Under the claim lock.
create or replace function penstock_data.with_notes(p_queue penstock_data.queues, p_position penstock_data.positions)
returns penstock_data.positions
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    if p_queue.direct then
        delete from penstock_data.claimed_ahead a
        where a.queue_id = p_queue.id
          and (a.xid, a.message_id) <= (coalesce(p_position.last_xid, pg_snapshot_xmax(p_position.window_to)), coalesce(p_position.last_id, 0))
          and penstock_data.has_passed(p_position, a.xid, a.message_id);
    end if;
    p_position.ahead := penstock_data.has_notes(p_queue.id);
    return p_position;
end
$$;

-- Messages of the log that a direct queue has not read and a claim ahead may try (ids), in the order in which they are
-- read: p_look rows are looked at behind (p_xid, p_id), which moves on.  Null: from the position on, the late ones
-- first.
-- looked: all unread ones of them.  more: there may be others.  Of the last 256 none is named then, because a mark may
-- lie behind them.  Messages whose time is over are left to the claim that moves the position.
create or replace function penstock_data.ahead_of(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_now timestamptz, p_look int,
    inout p_xid xid8, inout p_id bigint, out looked bigint[], out ids bigint[], out more boolean
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_window xid8 := pg_snapshot_xmax(case when p_position.last_xid is null then p_position.window_to else p_position.window_from end);
    v_late   xid8[] := array(
        select distinct l.xid from unnest(
            penstock_data.open_xids(p_position.window_from) || penstock_data.open_xids(p_position.window_to)) as l(xid)
        order by l.xid);
    v_me     xid8 := pg_current_xact_id_if_assigned();
    v_first  record;
    v_range  record;
begin
    if p_xid is null then
        p_xid := coalesce(p_position.last_xid, '0');
        p_id := coalesce(p_position.last_id, 0);
        if p_xid < v_window then
            p_xid := v_window;
            p_id := 0;
        end if;
        select array_agg(m.id order by m.nth) filter (where m.unread) as looked,
            array_agg(m.id order by m.nth) filter (where m.free and (m.count < p_look or m.nth <= m.count - 256)) as ids
        into v_first
        from (
            select (m.message).id, row_number() over (order by (m.message).xid, (m.message).id) as nth, count(*) over () as count,
                penstock_data.is_unread(p_queue, p_position, m.message) as unread,
                penstock_data.may_be_ahead(p_queue, p_position, m.message, p_now) and (m.message).xid is distinct from v_me as free
            from (
                select m.message
                from unnest(v_late) with ordinality as late(xid, nth)
                cross join lateral (
                    -- One xid as a range: docs/internals/windows.md, "Two scans".
                    select m as message from penstock_data.messages m
                    where m.segment > 0 and m.topic_id = p_queue.topic_id and not m.flagged and m.xid between late.xid and late.xid
                    order by m.xid, m.id limit p_look) m
                order by late.nth, (m.message).id limit p_look) m) m;
    else
        select null::bigint[] as looked, null::bigint[] as ids into v_first;
    end if;
    select count(*)::int as count, array_agg(m.xid) as xids, array_agg(m.id) as all_ids, array_agg(m.id) filter (where m.unread) as looked,
        array_agg(m.id) filter (where m.free and (m.count < p_look or m.nth <= m.count - 256)) as ids
    into v_range
    from (
        select m.*, count(*) over () as count
        from (
            select m.xid, m.id, row_number() over (order by m.xid, m.id) as nth, penstock_data.is_unread(p_queue, p_position, m) as unread,
                penstock_data.may_be_ahead(p_queue, p_position, m, p_now) and m.xid is distinct from v_me as free
            from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_queue.topic_id and not m.flagged and (m.xid, m.id) > (p_xid, p_id)
              and m.xid <> all (v_late)
            order by m.xid, m.id limit p_look) m
        order by m.nth) m;
    more := v_range.count = p_look;
    if more then
        p_xid := v_range.xids[p_look - 256];
        p_id := v_range.all_ids[p_look - 256];
    end if;
    looked := coalesce(v_first.looked, '{}') || coalesce(v_range.looked, '{}');
    ids := coalesce(v_first.ids, '{}') || coalesce(v_range.ids, '{}');
end
$$;

-- Lock messages of the log for a claim ahead, p_limit at most: those of p_ids that lie behind all marks and that no
-- other transaction has locked.  p_looked: all messages between the first and the last of them, in order, and 256 more.
create or replace function penstock_data.lock_ahead(p_queue_id bigint, p_looked bigint[], p_ids bigint[], p_limit int) returns bigint[]
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_slots  int[] := array(
        select penstock_data.mark_slot(p_queue_id, u.id) from unnest(p_looked) with ordinality as u(id, place) order by u.place);
    -- Only behind the marks that are there now …
    v_marks  int[] := penstock_data.locked_slots(v_slots);
    v_locked bigint[] := penstock_data.lock_messages(p_queue_id, penstock_data.behind_marks(p_looked, v_slots, v_marks, p_ids), p_limit);
begin
    -- … and behind those that are there with the locks in hand.
    return penstock_data.behind_marks(p_looked, v_slots, v_marks || penstock_data.locked_slots(v_slots), v_locked);
end
$$;

-- Of messages p_some, those that lie behind all set marks.  p_ids and p_slots: all messages and their marks, in order.
create or replace function penstock_data.behind_marks(p_ids bigint[], p_slots int[], p_marks int[], p_some bigint[]) returns bigint[]
language plpgsql immutable as $$
declare
    v_last bigint := (select max(m.place) from unnest(p_slots) with ordinality as m(slot, place) where m.slot in (select unnest(p_marks)));
begin
    return array(
        select u.id
        from unnest(p_ids) with ordinality as u(id, place)
        where u.place > coalesce(v_last, 0) and (u.id in (select unnest(p_some))) is true
        order by u.place);
end
$$;

-- The same for a queue that is not direct, from the position on.  The log is read as the position will read it, so that
-- nothing is left out between the first and the last message.  fifo: only the first message of a key that the queue has
-- not read, if nothing of that key is under way.
create or replace function penstock_data.ahead_by_id(
    p_queue penstock_data.queues, p_now timestamptz, p_look int, out ids bigint[], out more boolean
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_me       xid8 := pg_current_xact_id_if_assigned();
    v_position penstock_data.positions := penstock_data.seen_position(p_queue.id);
    v_log      bigint[] := '{}';
    v_read     penstock_data.pick;
begin
    if v_position.last_id is not null then
        v_read := penstock_data.read_by_id(p_queue, v_position, p_look);
        v_log := v_read.message_ids;
    end if;
    if cardinality(v_log) < p_look then
        v_read := penstock_data.read_by_id(p_queue, penstock_data.next_window(v_position), p_look);
        v_log := v_log || v_read.message_ids;
    end if;
    more := cardinality(v_log) >= p_look;
    -- In one statement: the claim that moves the position deletes notes and makes lanes busy.
    ids := array(
        select u.id
        from (
            select m.id, u.place, m.key, m.xid, m.deliver_after, m.expires_at, m.published_at,
                row_number() over (partition by case when p_queue.ordering = 'fifo' then coalesce(m.key, '') else m.id::text end
                    order by u.place) as nth
            from penstock_data.seen_position(p_queue.id) p
            cross join unnest(v_log) with ordinality as u(id, place)
            cross join lateral (
                select * from penstock_data.messages m where m.topic_id = p_queue.topic_id and m.id = u.id limit 1) m
            where penstock_data.is_unread(p_queue, p, m)
        ) u
        where u.nth = 1 and u.xid is distinct from v_me and (u.deliver_after > p_now) is not true
          and (least(u.expires_at, u.published_at + p_queue.retention) <= p_now) is not true
          and (p_queue.ordering <> 'fifo' or not penstock_data.is_lane_busy(p_queue.id, coalesce(u.key, '')))
        order by u.place);
end
$$;

-- fifo: is a message of this lane under way?
create or replace function penstock_data.is_lane_busy(p_queue_id bigint, p_lane text) returns boolean
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
    return exists (select from penstock_data.claimed_ahead a where a.queue_id = p_queue_id and a.lane = p_lane)
        or coalesce((
            select l.busy from penstock_data.lanes l
            where l.queue_id = p_queue_id and l.lane = p_lane order by l.seq desc limit 1), false);
end
$$;

-- Of messages that are locked, those that a claim ahead may still take: another claim may have taken them and ended
-- before that.  In one statement: the claim that moves the position deletes the note.
create or replace function penstock_data.still_ahead(p_queue penstock_data.queues, p_now timestamptz, p_ids bigint[], p_look int)
returns bigint[]
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    if not p_queue.direct then
        return array(
            select u.id
            from penstock_data.ahead_by_id(p_queue, p_now, p_look) a
            cross join unnest(a.ids) with ordinality as u(id, place)
            where u.id in (select unnest(p_ids)) order by u.place);
    end if;
    return array(
        select u.id
        from penstock_data.seen_position(p_queue.id) p
        cross join unnest(p_ids) with ordinality as u(id, place)
        cross join lateral (
            select * from penstock_data.messages m where m.topic_id = p_queue.topic_id and m.id = u.id limit 1) m
        where penstock_data.is_unread(p_queue, p, m)
        order by u.place);
end
$$;

-- Claim due messages of the schedule without the claim lock.  Locks: their rows.  Waits for nothing.
create or replace function penstock_data.claim_due_ahead(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_token text, p_deadline timestamptz, p_now timestamptz, p_limit int
) returns setof penstock_data.claimed_message
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_due record;
begin
    select array_agg(d.message_id) as ids, array_agg(d.attempt + 1) as attempts, array_agg(d.place) as places, array_agg(d.lane) as lanes,
        jsonb_object_agg(d.message_id, d.history) filter (where d.history is not null) as histories
    into v_due
    from (
        select d.*
        from penstock_data.due_messages(
            p_queue.id, p_position, array(select l from unnest(coalesce(p_position.levels, '{0}')) l where l >= 0 or not p_queue.direct),
            p_queue.ordering = 'fair', p_now, p_limit + 100) d
        where d.place = any (penstock_data.lock_places(array[d.place])) and not (penstock_data.are_over(p_queue, array[d.message_id], p_now))[1]
        limit p_limit) d;
    if v_due.ids is not null then
        delete from penstock_data.scheduled s where s.ctid = any (v_due.places);
        insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
        select p_queue.id, min(id), p_deadline, p_now, p_token, v_due.ids, v_due.attempts, case when not p_queue.direct then v_due.lanes end, v_due.histories
        from unnest(v_due.ids) id;
        return query select * from penstock_data.claimed_rows(p_queue.topic_id, v_due.ids, v_due.attempts, p_deadline);
    end if;
end
$$;

-- Look at p_look messages of the log behind (p_xid, p_id), as in ahead_of, and claim up to p_limit that no other
-- transaction has locked.  held: some are locked.  more: the log goes on behind (p_xid, p_id), which has moved to the
-- end of this look.
create or replace function penstock_data.claim_log_ahead(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_token text, p_deadline timestamptz, p_now timestamptz,
    p_look int, p_limit int, inout p_xid xid8, inout p_id bigint, out ids bigint[], out held boolean, out more boolean
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_log record;
begin
    if p_queue.direct then
        select * into v_log from penstock_data.ahead_of(p_queue, p_position, p_now, p_look, p_xid, p_id);
        p_xid := v_log.p_xid;
        p_id := v_log.p_id;
        ids := penstock_data.lock_ahead(p_queue.id, v_log.looked, v_log.ids, p_limit);
    else
        select * into v_log from penstock_data.ahead_by_id(p_queue, p_now, p_look);
        ids := penstock_data.lock_messages(p_queue.id, v_log.ids, p_limit);
    end if;
    ids := penstock_data.still_ahead(p_queue, p_now, ids, p_look);
    held := coalesce(cardinality(v_log.ids) > cardinality(ids), false);
    more := v_log.more;
    if ids <> '{}' then
        insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, lanes)
        select p_queue.id, min(u.id), p_deadline, p_now, p_token, ids,
            case when not p_queue.direct then array_agg(case p_queue.ordering when 'fifo' then coalesce(m.key, '') else m.key end order by u.place) end
        from unnest(ids) with ordinality as u(id, place)
        cross join lateral (select m.key from penstock_data.messages m where m.topic_id = p_queue.topic_id and m.id = u.id limit 1) m;
        perform penstock_data.note_ahead(p_queue, ids);
    end if;
end
$$;

-- Note messages that were claimed ahead, for the claim that moves the position.
create or replace function penstock_data.note_ahead(p_queue penstock_data.queues, p_ids bigint[]) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    insert into penstock_data.claimed_ahead (queue_id, xid, message_id, lane)
    select p_queue.id, m.xid, m.id, case when p_queue.ordering = 'fifo' then coalesce(m.key, '') end
    from unnest(p_ids) as u(id)
    cross join lateral (
        select m.xid, m.id, m.key from penstock_data.messages m where m.topic_id = p_queue.topic_id and m.id = u.id limit 1) m;
    -- A claim with an older snapshot does not see the note, but when it locks the message.
    update penstock_data.message_locks l set noted_by = pg_current_xact_id()
    where l.slot = any (array(select penstock_data.message_slot(p_queue.id, id) from unnest(p_ids) id));
    if p_queue.direct then
        -- The fast path of claims asks for flags.
        insert into penstock_data.flags (topic_id) values (p_queue.topic_id) on conflict do nothing;
    end if;
end
$$;

-- Claim messages ahead of the position.  may_claim_ahead() has said that this may be.
-- Locks: the messages, and the rows of the schedule, that it takes.  Waits for nothing.
-- p_rest: the batch has messages already.
create or replace function penstock_data.claim_ahead(
    p_queue_name text, p_token text, p_seconds int, p_limit int, p_rest boolean default false
) returns setof penstock_data.claimed_message
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
    v_now      timestamptz := penstock_data.clock();
    v_deadline timestamptz := v_now + p_seconds * interval '1 second';
    c_looks    constant int := 5;
    v_size     int := p_limit + 600;        -- of a look; each look is four times as long as the one before
    v_log      record;
    v_note     record;
    v_xid      xid8;                        -- the next look begins behind this message; null: at the position
    v_id       bigint;
    v_gap_xid  xid8;                        -- where the first look ended, if the second one began further on
    v_gap_id   bigint;
    v_count    int;
    v_left     int := p_limit;
    v_held     boolean := false;            -- others have locked what this claim could take
begin
    perform penstock_data.check_claim(p_token, p_seconds, p_limit);
    perform penstock_data.check_queue(p_queue_name);
    select * into v_queue from penstock_data.queues q where q.name = p_queue_name;
    if v_queue.id is null or v_queue.paused_at is not null then
        return;
    end if;
    v_position := penstock_data.seen_position(v_queue.id);
    if v_now >= v_position.attend_at then
        perform penstock_data.take_back(v_queue.id, v_position.floor, v_now, false, 100);
    end if;
    return query select * from penstock_data.claim_due_ahead(v_queue, v_position, p_token, v_deadline, v_now, v_left);
    get diagnostics v_count = row_count;
    v_left := v_left - v_count;

    -- The log: first from the position on, then behind the last note, because others have claimed most of what lies
    -- before it.  The last look begins where the first one ended: a claim between the two may have been rolled back.
    for v_look in 1 .. c_looks loop
        exit when v_left = 0;
        select * into v_log
        from penstock_data.claim_log_ahead(v_queue, v_position, p_token, v_deadline, v_now, v_size, v_left, v_xid, v_id);
        v_held := v_held or v_log.held;
        if v_log.ids <> '{}' then
            v_left := v_left - cardinality(v_log.ids);
            v_position.ahead := true;
            return query select * from penstock_data.claimed_rows(
                v_queue.topic_id, v_log.ids, array_fill(1, array[cardinality(v_log.ids)]), v_deadline);
        end if;
        if v_log.more and (v_gap_xid is null or v_look < c_looks - 1) then
            v_xid := v_log.p_xid;
            v_id := v_log.p_id;
            if v_look = 1 and v_queue.direct then
                select a.xid, a.message_id into v_note from penstock_data.claimed_ahead a where a.queue_id = v_queue.id
                order by a.xid desc, a.message_id desc limit 1;
                if (v_note.xid, v_note.message_id) > (v_xid, v_id) then
                    v_gap_xid := v_xid;
                    v_gap_id := v_id;
                    v_xid := v_note.xid;
                    v_id := v_note.message_id;
                end if;
            end if;
        elsif v_gap_xid is not null then
            v_xid := v_gap_xid;
            v_id := v_gap_id;
            v_gap_xid := null;
        else
            exit;
        end if;
        v_size := 4 * v_size;
    end loop;
    if v_left < p_limit then
        perform penstock_data.end_waiting(v_queue.topic_id, v_queue.id, p_token, v_now);
    elsif not p_rest and (
        -- Others hold what the queue has.  Some of it enters the schedule when a claim commits: all that is in a queue
        -- which is not direct, and what is flagged.
        v_held or not v_queue.direct or penstock_data.has_slices(v_queue.id)
        or exists (
            select from penstock_data.messages m
            where m.segment > 0 and m.topic_id = v_queue.topic_id and m.flagged and m.xid >= pg_snapshot_xmin(v_position.flagged_from)
              and penstock_data.is_unread(v_queue, v_position, m))
    ) then
        perform penstock_data.tell_busy(p_queue_name);
    end if;
end
$$;

-- Of rows of the schedule, lock those that no other transaction has locked.
create or replace function penstock_data.lock_places(p_places tid[]) returns tid[]
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
begin
    return array(select s.ctid from penstock_data.scheduled s where s.ctid = any (p_places) for update skip locked);
end
$$;
