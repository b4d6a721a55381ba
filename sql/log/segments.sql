-- Segments: how the log and the history stay small (docs/internals/segments.md).

-- The table of a segment.
create or replace function penstock_data.segment_table(p_kind text, p_number int) returns regclass
language sql stable as $$
    select format('penstock_data.%I', p_kind || '_' || p_number)::regclass
$$;

-- Add a segment: a new empty table, attached.  Attaching does not lock out publishers, creating it in place would.
create or replace function penstock_data.add_segment(p_kind text) returns int
language plpgsql as $$
declare
    v_number int := (select max(s.number) + 1 from penstock_data.segments s where s.kind = p_kind);
    v_table  text := format('penstock_data.%I', p_kind || '_' || v_number);
begin
    execute format('create table %s (like penstock_data.%I including defaults including constraints)', v_table, p_kind);
    perform penstock_data.close_table(v_table::regclass);
    execute format('alter table %s replica identity full', v_table);
    execute format('alter table penstock_data.%I attach partition %s for values in (%s)', p_kind, v_table, v_number);
    insert into penstock_data.segments (kind, number, unaware, idle) values (p_kind, v_number, null, true);
    return v_number;
end
$$;

-- The free segment to write to next; null when there is none.  A transaction that holds a lock on the log does not
-- learn of a segment attached meanwhile: it could neither write to it nor read from it.  So a new segment is used once
-- all transactions have ended that held the log after it was added (at a later maintain(), because they must see it
-- committed).
create or replace function penstock_data.free_segment(p_kind text) returns int
language plpgsql as $$
declare
    v_log oid := format('penstock_data.%I', p_kind)::regclass;
begin
    update penstock_data.segments s
    set unaware = array(
        select distinct l.virtualtransaction from pg_locks l
        where l.locktype = 'relation' and l.relation = v_log and l.granted and l.pid is distinct from pg_backend_pid()
          and l.database = (select d.oid from pg_database d where d.datname = current_database()))
    where s.kind = p_kind and s.unaware is null;
    return (
        select min(s.number) from penstock_data.segments s
        where s.kind = p_kind and s.opened_at is null
          and not exists (select from pg_locks l where l.virtualtransaction = any (s.unaware)));
end
$$;

-- How many segments may wait to be emptied.  Each costs every claim some locks and memory.
create or replace function penstock_data.most_waiting(p_kind text) returns int
language sql immutable as $$
    select case p_kind when 'messages' then 3 else 2 end
$$;

-- Is it time to switch from the current segment?  It is at least as large as all that wait together (a log of less than
-- a megabyte aside), or so old that few wait for the end of the longest retention; and few wait, whatever is kept.
create or replace function penstock_data.is_full(p_current penstock_data.segments, p_now timestamptz) returns boolean
language plpgsql stable as $$
declare
    c_little constant bigint := 1048576;
    c_trifle constant bigint := 65536;
    v_bytes  bigint := pg_table_size(penstock_data.segment_table(p_current.kind, p_current.number));
    v_count  int;
    v_others bigint;
begin
    select count(*), coalesce(sum(pg_table_size(penstock_data.segment_table(s.kind, s.number))), 0) into v_count, v_others
    from penstock_data.segments s where s.kind = p_current.kind and s.closed_at is not null;
    return v_count < penstock_data.most_waiting(p_current.kind) and (
        select v_bytes >= c.segment_bytes and (v_bytes >= v_others or v_others < c_little)
            or v_bytes > c_trifle and p_current.opened_at + greatest(c.segment_age, k.longest / penstock_data.most_waiting(p_current.kind)) <= p_now
        from penstock_data.settings c
        cross join lateral (
            select case p_current.kind when 'receipts' then c.receipt_retention
                else (select max(t.retention) from penstock_data.topics t) end as longest
        ) k);
end
$$;

-- Switch to an empty segment when the current one is full.  Returns whether it did: not when there is no free segment
-- yet.  One is always added ahead of its need.
create or replace function penstock_data.rotate(p_kind text, p_now timestamptz) returns boolean
language plpgsql as $$
declare
    v_current penstock_data.segments;
    v_next    int;
begin
    select s.* into v_current from penstock_data.segments s
    where s.kind = p_kind and s.opened_at is not null and s.closed_at is null;
    if not penstock_data.is_full(v_current, p_now) then
        return false;
    end if;
    v_next := penstock_data.free_segment(p_kind);
    if not exists (select from penstock_data.segments s where s.kind = p_kind and s.opened_at is null and s.number is distinct from v_next) then
        perform penstock_data.add_segment(p_kind);
    end if;
    if v_next is null then
        return false;
    end if;
    update penstock_data.segments s set closed_at = p_now where s.kind = p_kind and s.number = v_current.number;
    update penstock_data.segments s set opened_at = p_now, leaving = null, idle = false where s.kind = p_kind and s.number = v_next;
    if p_kind = 'messages' then
        update penstock_data.settings c
        set message_segment = v_next, first_segment = least(c.first_segment, v_next), last_segment = greatest(c.last_segment, v_next);
    else
        update penstock_data.settings set receipt_segment = v_next;
    end if;
    return true;
end
$$;

-- Messages that are still needed individually: scheduled, behind a head, claimed, or in a slice.
create or replace function penstock_data.needed_messages() returns table (topic_id bigint, message_id bigint)
language sql stable rows 1000 as $$
    select q.topic_id, n.message_id
    from (
        select s.queue_id, s.message_id from penstock_data.scheduled s
        union all select b.queue_id, b.message_id from penstock_data.backlog b
        union all select c.queue_id, unnest(c.message_ids) from penstock_data.claims c
    ) n join penstock_data.queues q on q.id = n.queue_id
$$;

-- Move stragglers of a segment to segment 0.  Returns how many were moved, p_limit at most.
create or replace function penstock_data.evacuate(p_segment int, p_limit int) returns int
language plpgsql as $$
declare
    v_count int;
begin
    -- With the number in its text, here and below: so only this segment is planned for, of however many there are.
    execute format('
        update penstock_data.messages m set segment = 0
        from (
            select distinct n.topic_id, n.message_id
            from penstock_data.needed_messages() n
            join penstock_data.messages o on o.segment = %1$s and o.topic_id = n.topic_id and o.id = n.message_id
            limit %2$s
        ) n
        where m.segment = %1$s and m.topic_id = n.topic_id and m.id = n.message_id', p_segment, p_limit);
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- TRUNCATE heeds no snapshot: for a caller with an old one, a message that was moved before its segment was emptied is
-- in neither place.  Then it must try again with a new snapshot, or the message would pass for lost.
create or replace function penstock_data.check_not_moved(p_topic_id bigint, p_ids bigint[]) returns void
language plpgsql as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' and exists (
        select from unnest(p_ids) as u(id)
        where not exists (select from penstock_data.messages m where m.topic_id = p_topic_id and m.id = u.id)
    ) then
        raise exception 'could not serialize access: messages were moved after this transaction began'
            using errcode = 'serialization_failure', hint = 'Try again in a new transaction.';
    end if;
end
$$;

-- Who still needs a message segment as a whole: the queues and readers that have not read all of it, and topics whose
-- retention is not over.  Index probes only.  p_most: how many to name; null: all.
create or replace function penstock_data.segment_holders(p_segment int, p_closed_at timestamptz, p_now timestamptz, p_most int default null)
returns setof text
language plpgsql stable as $$
begin
    return query execute format($holders$
        with positions as (
            select 'queue ' || q.name as holder, q.topic_id,
                case when p.last_id is null then p.window_to else p.window_from end as seen, false as flagged
            from penstock_data.queues q cross join lateral penstock_data.position_of(q.id) p
            union all
            select 'queue ' || q.name, q.topic_id, p.flagged_from, true
            from penstock_data.queues q cross join lateral penstock_data.position_of(q.id) p
            where q.ordering <> 'fifo'
            union all
            select 'reader ' || r.name, r.topic_id, p.window_from, false
            from penstock_data.readers r cross join lateral penstock_data.reader_position(r.id) p
        )
        select h.holder from (
            select p.holder from positions p
            where exists (
                select from penstock_data.messages m
                where m.segment = %1$s and m.topic_id = p.topic_id and (m.flagged or not p.flagged)
                  and m.xid >= pg_snapshot_xmax(p.seen))
            or exists (
                select from penstock_data.messages m
                where m.segment = %1$s and m.topic_id = p.topic_id and (m.flagged or not p.flagged)
                  and m.xid = any (penstock_data.open_xids(p.seen)))
            union all
            select 'retention of topic ' || t.name from penstock_data.topics t
            where $1 + t.retention > $2
              and exists (select from penstock_data.messages m where m.segment = %1$s and m.topic_id = t.id)
        ) h limit $3
    $holders$, p_segment) using p_closed_at, p_now, p_most;
end
$$;

-- Has every queue and reader read all of a message segment, and is its retention over?
create or replace function penstock_data.is_read(p_segment int, p_closed_at timestamptz, p_now timestamptz) returns boolean
language sql stable as $$
    select not exists (select from penstock_data.segment_holders(p_segment, p_closed_at, p_now, 1))
$$;

-- Lock a table, but for its partitions, if that is possible within the caller's lock_timeout.
create or replace function penstock_data.try_lock_table(p_table regclass, p_mode text) returns boolean
language plpgsql as $$
begin
    execute format('lock table only %s in %s mode', p_table, p_mode);
    return true;
exception when lock_not_available then
    return false;
end
$$;

-- Who may read messages: whether this changed tells whether a reader has come.
create or replace function penstock_data.all_readers() returns text
language sql stable as $$
    select md5(coalesce((select string_agg(q.id::text, ',' order by q.id) from penstock_data.queues q), '')
        || ';' || coalesce((select string_agg(r.id::text, ',' order by r.id) from penstock_data.readers r), ''))
$$;

-- Take away what a segment holds.  False when the lock that stops all claims can't be had at once (a long reader, a
-- dump), and then it is tried again later.  Under that lock nothing is looked for that takes long.
create or replace function penstock_data.truncate_segment(p_segment penstock_data.segments, p_readers text, p_now timestamptz) returns boolean
language plpgsql as $$
begin
    if p_segment.kind = 'messages' then
        perform penstock_data.note_emptied(p_segment.number, p_now);
    end if;
    execute format('lock table %s in access exclusive mode', penstock_data.segment_table(p_segment.kind, p_segment.number));
    if p_readers <> penstock_data.all_readers() then
        raise lock_not_available;       -- a new queue may have read from it: look again
    end if;
    execute format('truncate %s', penstock_data.segment_table(p_segment.kind, p_segment.number));
    update penstock_data.segments s set opened_at = null, closed_at = null, leaving = null, freed_by = pg_current_xact_id()
    where s.kind = p_segment.kind and s.number = p_segment.number;
    perform penstock_data.limit_idleness();
    return true;
exception when lock_not_available then
    return false;
end
$$;

-- Empty a message segment that nothing needs any more.  more: some of it was moved to segment 0, and there is more.
-- First those who write to it are locked out, which no claim notices: then what is found is final, a publisher that
-- chose the segment long ago included.  Messages come to be needed only by what reads the log, or by
-- requeue_dlq_messages(), which waits for this step.
create or replace function penstock_data.empty_messages(p_segment penstock_data.segments, p_now timestamptz, out emptied boolean, out more boolean)
language plpgsql as $$
declare
    c_most    constant int := 10000;
    v_readers text;
begin
    emptied := false;
    more := false;
    if not penstock_data.is_read(p_segment.number, p_segment.closed_at, p_now)
       or not penstock_data.try_lock_table(penstock_data.segment_table('messages', p_segment.number), 'share row exclusive') then
        return;
    end if;
    v_readers := penstock_data.all_readers();
    if not penstock_data.is_read(p_segment.number, p_segment.closed_at, p_now) then
        return;
    end if;
    more := penstock_data.evacuate(p_segment.number, c_most) = c_most;
    if not more then
        emptied := penstock_data.truncate_segment(p_segment, v_readers, p_now);
    end if;
end
$$;

-- Empty a receipt segment whose retention is over and whose receipts no fifo queue has still to learn from.
create or replace function penstock_data.empty_receipts(p_segment penstock_data.segments, p_now timestamptz) returns boolean
language plpgsql as $$
begin
    if (select p_segment.closed_at + c.receipt_retention > p_now from penstock_data.settings c)
       or not penstock_data.try_lock_table(penstock_data.segment_table('receipts', p_segment.number), 'share row exclusive') then
        return false;
    end if;
    if exists (
        select from penstock_data.queues q
        cross join lateral penstock_data.position_of(q.id) p
        where q.ordering = 'fifo' and exists (
            select from penstock_data.receipts r
            where r.segment = p_segment.number and r.queue_id = q.id
              and (r.xid >= pg_snapshot_xmax(p.receipts_from) or r.xid = any (penstock_data.open_xids(p.receipts_from))))
    ) or exists (
        select from penstock_data.streams s
        cross join lateral (select (penstock_data.stream_offset(s) ->> 'snap')::pg_snapshot as seen) p
        where s.entity = 'receipts' and exists (
            select from penstock_data.receipts r
            where r.segment = p_segment.number
              and (r.xid >= pg_snapshot_xmax(p.seen) or r.xid = any (penstock_data.open_xids(p.seen))))
    ) then
        return false;
    end if;
    return penstock_data.truncate_segment(p_segment, penstock_data.all_readers(), p_now);
end
$$;

-- Empty the oldest closed segment that can be: one in a transaction, because its lock is kept to the end.
create or replace function penstock_data.empty_segment(p_now timestamptz, out affected bigint, out more boolean)
language plpgsql as $$
declare
    v_segment penstock_data.segments;
    v_emptied boolean;
begin
    affected := 0;
    more := false;
    -- What follows can't be undone, so everything stored is looked at.
    if exists (select from penstock_data.segments s where s.closed_at is not null) then
        perform penstock_data.check_at_home(null);
    end if;
    for v_segment in
        select s.* from penstock_data.segments s where s.closed_at is not null order by s.closed_at, s.kind
    loop
        if v_segment.kind = 'messages' then
            select e.emptied, e.more into v_emptied, more from penstock_data.empty_messages(v_segment, p_now) e;
        else
            v_emptied := penstock_data.empty_receipts(v_segment, p_now);
        end if;
        affected := v_emptied::int;
        more := more or v_emptied;
        exit when more;
    end loop;
end
$$;

-- Note which transactions are open while a segment is free: one with an old snapshot may take it for the one that is
-- written to.  Once all of them have ended, and nothing has been written to it, the segment is idle.  Returns how many
-- became idle.
create or replace function penstock_data.retire_free_segments(p_now timestamptz) returns int
language plpgsql as $$
declare
    v_segment penstock_data.segments;
    v_used    boolean;
    v_count   int := 0;
begin
    update penstock_data.segments s set leaving = penstock_data.open_transactions()
    where s.opened_at is null and not s.idle and s.leaving is null and s.freed_by is distinct from pg_current_xact_id();
    for v_segment in
        select s.* from penstock_data.segments s
        where s.kind = 'messages' and s.opened_at is null and not s.idle
          and s.leaving is not null and penstock_data.have_ended(s.leaving)
    loop
        -- The lock is not had while a prepared transaction has written there.
        continue when not penstock_data.try_lock_table(penstock_data.segment_table('messages', v_segment.number), 'share row exclusive');
        execute format('select exists (select from %s)', penstock_data.segment_table('messages', v_segment.number)) into v_used;
        if v_used then
            perform penstock_data.reopen_segment(v_segment, p_now);
        else
            -- Unless it was switched to since we read its row.
            update penstock_data.segments s set idle = true
            where s.kind = 'messages' and s.number = v_segment.number and s.opened_at is null;
            v_count := v_count + found::int;
        end if;
    end loop;
    -- Behind this lock a switch of segments has ended, and the next one waits.
    perform from penstock_data.settings c for update;
    update penstock_data.settings c set first_segment = s.first, last_segment = s.last
    from (select min(s.number) as first, max(s.number) as last from penstock_data.segments s where s.kind = 'messages' and not s.idle) s
    where (c.first_segment, c.last_segment) <> (s.first, s.last);
    return v_count;
end
$$;

create or replace function penstock_data.open_transactions() returns text[]
language sql stable as $$
    select coalesce(array_agg(l.virtualtransaction), '{}')
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'virtualxid' and l.granted and a.datname = current_database()
$$;

-- Have all of these transactions ended?
create or replace function penstock_data.have_ended(p_transactions text[]) returns boolean
language sql stable as $$
    select not exists (select from pg_locks l where l.locktype = 'virtualxid' and l.virtualtransaction = any (p_transactions))
$$;

-- A transaction that took a free segment for the current one has written to it: it waits to be emptied like any other.
create or replace function penstock_data.reopen_segment(p_segment penstock_data.segments, p_now timestamptz) returns void
language sql as $$
    update penstock_data.segments s set opened_at = p_now, closed_at = p_now, leaving = null, idle = false
    where s.kind = p_segment.kind and s.number = p_segment.number and s.opened_at is null
$$;

-- Free segments that are too many: those with the highest numbers, beyond as many as may be in use and one more.
create or replace function penstock_data.surplus_segments() returns setof penstock_data.segments
language sql stable as $$
    select (f.segment).* from (
        select s as segment, row_number() over (partition by s.kind order by s.opened_at is not null desc, s.number) as nth
        from penstock_data.segments s
    ) f
    where (f.segment).opened_at is null and f.nth > penstock_data.most_waiting((f.segment).kind) + 2
$$;

-- Drop a free segment that is too many: one in a transaction, because the lock on the log stops all claims.  A
-- transaction with an old snapshot may take it for the one that is written to.  So it is dropped when all have ended
-- that were open when it was found to be too many, this one included.
create or replace function penstock_data.drop_surplus_segment(p_now timestamptz, out affected bigint, out more boolean)
language plpgsql as $$
declare
    v_segment penstock_data.segments;
    v_used    boolean;
begin
    affected := 0;
    update penstock_data.segments s
    set leaving = penstock_data.open_transactions()
    from penstock_data.surplus_segments() f
    where s.kind = f.kind and s.number = f.number and s.leaving is null and s.freed_by is distinct from pg_current_xact_id();
    more := found;
    select s.* into v_segment from penstock_data.surplus_segments() s
    where s.leaving is not null and penstock_data.have_ended(s.leaving)
    order by s.kind, s.number desc limit 1;
    if v_segment.number is null
       or not penstock_data.try_lock_table(format('penstock_data.%I', v_segment.kind)::regclass, 'access exclusive') then
        return;
    end if;
    perform penstock_data.limit_idleness();
    execute format('select exists (select from %s)', penstock_data.segment_table(v_segment.kind, v_segment.number)) into v_used;
    if v_used then
        perform penstock_data.reopen_segment(v_segment, p_now);
    else
        execute format('drop table %s', penstock_data.segment_table(v_segment.kind, v_segment.number));
        delete from penstock_data.segments s where s.kind = v_segment.kind and s.number = v_segment.number;
        affected := 1;
    end if;
    more := true;
end
$$;

-- Drop from segment 0 what is not needed any more.  Returns how many, p_limit at most.
create or replace function penstock_data.sweep_kept(p_limit int) returns bigint
language plpgsql
set enable_nestloop = off
as $$
declare
    v_count bigint;
begin
    delete from penstock_data.messages_0 m where m.ctid = any (array(
        select o.ctid from penstock_data.messages_0 o
        where not exists (select from penstock_data.needed_messages() n where n.topic_id = o.topic_id and n.message_id = o.id)
        limit p_limit for update of o skip locked));
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
