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
    execute format('alter table penstock_data.%I attach partition %s for values in (%s)', p_kind, v_table, v_number);
    insert into penstock_data.segments (kind, number, unaware) values (p_kind, v_number, null);
    return v_number;
end
$$;

-- The free segment to write to next; null when there is none.  A transaction that holds a lock on the log does not learn
-- of a segment attached meanwhile: it could neither write to it nor read from it.  So a new segment is used once all
-- transactions have ended that held the log after it was added (at a later maintain(), because they must see it committed).
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

-- Switch to an empty segment when the current one is large or old enough.  Returns whether it did: not when there is no
-- free segment yet.  One is always added ahead of its need.
create or replace function penstock_data.rotate(p_kind text, p_now timestamptz) returns boolean
language plpgsql as $$
declare
    v_current penstock_data.segments;
    v_bytes   bigint;
    v_next    int;
begin
    select s.* into v_current from penstock_data.segments s
    where s.kind = p_kind and s.opened_at is not null and s.closed_at is null;
    v_bytes := pg_table_size(penstock_data.segment_table(p_kind, v_current.number));
    if not (select v_bytes >= c.segment_bytes or v_bytes > 65536 and v_current.opened_at + c.segment_age <= p_now
            from penstock_data.settings c) then
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
    update penstock_data.segments s set opened_at = p_now where s.kind = p_kind and s.number = v_next;
    if p_kind = 'messages' then
        update penstock_data.settings set message_segment = v_next;
    else
        update penstock_data.settings set receipt_segment = v_next;
    end if;
    return true;
end
$$;

-- Messages that are still needed individually: scheduled, behind a head, or claimed.
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
    update penstock_data.messages m set segment = 0
    from (
        select distinct n.topic_id, n.message_id
        from penstock_data.needed_messages() n
        join penstock_data.messages o on o.segment = p_segment and o.topic_id = n.topic_id and o.id = n.message_id
        limit p_limit
    ) n
    where m.segment = p_segment and m.topic_id = n.topic_id and m.id = n.message_id;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- TRUNCATE heeds no snapshot: for a caller with an old one, a message that was moved before its segment was emptied is in
-- neither place.  Then it must try again with a new snapshot, or the message would pass for lost.
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
-- retention is not over.  Index probes only.  Plain SQL, so that whoever asks for one of them stops at the first.
create or replace function penstock_data.segment_holders(p_segment int, p_closed_at timestamptz, p_now timestamptz) returns setof text
language sql stable as $$
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
    select p.holder from positions p
    where exists (
        select from penstock_data.messages m
        where m.segment = p_segment and m.topic_id = p.topic_id and (m.flagged or not p.flagged)
          and m.xid >= pg_snapshot_xmax(p.seen))
    or exists (
        select from penstock_data.messages m
        where m.segment = p_segment and m.topic_id = p.topic_id and (m.flagged or not p.flagged)
          and m.xid = any (penstock_data.open_xids(p.seen)))
    union all
    select 'retention of topic ' || t.name from penstock_data.topics t
    where p_closed_at + t.retention > p_now
      and exists (select from penstock_data.messages m where m.segment = p_segment and m.topic_id = t.id)
$$;

-- Has every queue and reader read all of a message segment, and is its retention over?
create or replace function penstock_data.is_read(p_segment int, p_closed_at timestamptz, p_now timestamptz) returns boolean
language sql stable as $$
    select not exists (select from penstock_data.segment_holders(p_segment, p_closed_at, p_now))
$$;

-- Empty a message segment that nothing needs any more.  Returns whether it did: false when something still needs it, or
-- when somebody (a long reader, a dump) holds its table, and then it is tried again later.
create or replace function penstock_data.empty_messages(p_segment penstock_data.segments, p_now timestamptz) returns boolean
language plpgsql as $$
declare
    c_most constant int := 10000;
begin
    if not penstock_data.is_read(p_segment.number, p_segment.closed_at, p_now)
       or penstock_data.evacuate(p_segment.number, c_most) = c_most then
        return false;
    end if;
    begin
        perform set_config('lock_timeout', '50ms', true);
        execute format('lock table %s in access exclusive mode', penstock_data.segment_table('messages', p_segment.number));
    exception when lock_not_available then
        return false;
    end;
    -- Nobody writes to it now, so this answer is final: a publisher that chose the segment long ago is seen, too.
    if not penstock_data.is_read(p_segment.number, p_segment.closed_at, p_now)
       or penstock_data.evacuate(p_segment.number, 1000) = 1000 then
        return false;
    end if;
    perform penstock_data.note_emptied(p_segment.number, p_now);
    execute format('truncate %s', penstock_data.segment_table('messages', p_segment.number));
    update penstock_data.segments s set opened_at = null, closed_at = null where s.kind = 'messages' and s.number = p_segment.number;
    return true;
end
$$;

-- Empty a receipt segment whose retention is over and whose receipts no fifo queue has still to learn from.
create or replace function penstock_data.empty_receipts(p_segment penstock_data.segments, p_now timestamptz) returns boolean
language plpgsql as $$
begin
    if (select p_segment.closed_at + c.receipt_retention > p_now from penstock_data.settings c) then
        return false;
    end if;
    begin
        perform set_config('lock_timeout', '50ms', true);
        execute format('lock table %s in access exclusive mode', penstock_data.segment_table('receipts', p_segment.number));
    exception when lock_not_available then
        return false;
    end;
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
    execute format('truncate %s', penstock_data.segment_table('receipts', p_segment.number));
    update penstock_data.segments s set opened_at = null, closed_at = null where s.kind = 'receipts' and s.number = p_segment.number;
    return true;
end
$$;

-- Empty every closed segment of a kind that can be.  Returns how many.
create or replace function penstock_data.empty_segments(p_kind text, p_now timestamptz) returns int
language plpgsql as $$
declare
    v_before  text := current_setting('lock_timeout');
    v_segment penstock_data.segments;
    v_count   int := 0;
begin
    for v_segment in
        select s.* from penstock_data.segments s where s.kind = p_kind and s.closed_at is not null order by s.closed_at
    loop
        if p_kind = 'messages' and penstock_data.empty_messages(v_segment, p_now)
           or p_kind = 'receipts' and penstock_data.empty_receipts(v_segment, p_now) then
            v_count := v_count + 1;
        end if;
    end loop;
    perform set_config('lock_timeout', v_before, true);
    return v_count;
end
$$;

-- Drop from segment 0 what nobody needs any more.  Returns how many.
create or replace function penstock_data.sweep_kept() returns int
language plpgsql as $$
declare
    v_count int;
begin
    delete from penstock_data.messages m
    where m.segment = 0
      and not exists (select from penstock_data.needed_messages() n where n.topic_id = m.topic_id and n.message_id = m.id);
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
