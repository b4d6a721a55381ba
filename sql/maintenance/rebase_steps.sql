-- A queue's position for the log stamped anew, where all messages bear one xid and only an id can part them: what was
-- unread above the highest id that was read stays in the log, the rest (and all flagged ones) is scheduled one by one.
create or replace function penstock_data.rebase_queue(p_queue penstock_data.queues, p_before pg_snapshot, p_after pg_snapshot)
returns void
language plpgsql as $$
declare
    v_position penstock_data.positions;
    v_unread   bigint[] := array(select m.id from penstock_data.unread_messages(p_queue.id) m order by m.id);
    v_cut      bigint;
    v_single   bigint[];
    v_now      timestamptz := penstock_data.clock();
    v_admitted record;
begin
    select * into v_position from penstock_data.position_of(p_queue.id);
    if p_queue.ordering = 'fifo' then
        v_position := penstock_data.apply_receipts(v_position, '9223372036854775806:9223372036854775806:', v_now);
        v_position.receipts_from := '9223372036854775806:9223372036854775806:';
        perform penstock_data.enter_noted(p_queue.id, v_position, v_now);
        v_position.receipts_from := p_after;
    end if;
    delete from penstock_data.claimed_ahead a where a.queue_id = p_queue.id;
    select coalesce(max(m.id), 0) into v_cut
    from penstock_data.messages m
    where m.segment > 0 and m.topic_id = p_queue.topic_id
      and not exists (select from unnest(v_unread) as u(id) where u.id = m.id);
    v_single := array(
        select m.id from penstock_data.messages m
        where m.segment > 0 and m.topic_id = p_queue.topic_id and m.id = any (v_unread)
          and (m.id <= v_cut or m.flagged and p_queue.ordering <> 'fifo')
        order by m.id);
    v_position.window_from := p_before;
    v_position.window_to := p_after;
    v_position.last_xid := case when p_queue.direct then pg_snapshot_xmax(p_before) end;
    v_position.last_id := v_cut;
    v_position.from_id := case when not p_queue.direct then 0 end;
    v_position.to_id := case when not p_queue.direct then penstock_data.last_message_id() end;
    v_position.next_from_id := v_position.to_id;
    v_position.flagged_from := p_after;
    v_position.flagged_to := null;
    v_position.flagged_xid := null;
    v_position.flagged_id := null;
    v_position.full_scan_at := v_now;
    v_position.attend_at := v_now;
    v_position.slices_from := null;
    v_position.slice_size := null;
    v_position.sliced_at := null;
    if v_single <> '{}' then
        select * into v_admitted from penstock_data.admit(p_queue, v_position, v_single, v_now);
        v_position := v_admitted.p_position;
    end if;
    perform penstock_data.append_position(v_position);
end
$$;

-- A reader's position for the log stamped anew: at its first unread message.
create or replace function penstock_data.rebase_reader(p_reader penstock_data.readers, p_before pg_snapshot, p_after pg_snapshot)
returns void
language plpgsql as $$
declare
    v_position penstock_data.reader_positions;
    v_first    bigint;
begin
    select * into v_position from penstock_data.reader_position(p_reader.id);
    select min(m.id) into v_first
    from penstock_data.messages m
    where m.segment > 0 and m.topic_id = p_reader.topic_id
      and (not pg_visible_in_snapshot(m.xid, v_position.window_to)
           or v_position.last_id is not null and not pg_visible_in_snapshot(m.xid, v_position.window_from) and m.id > v_position.last_id);
    v_position.window_from := p_before;
    v_position.window_to := p_after;
    v_position.from_id := 0;
    v_position.to_id := penstock_data.last_message_id();
    v_position.next_from_id := v_position.to_id;
    v_position.last_id := coalesce(v_first - 1, v_position.to_id);
    v_position.given_id := v_position.last_id;      -- nothing has been handed out behind it since
    perform penstock_data.append_reader_position(v_position);
end
$$;

-- Refuse while a subscription writes to the log: what it brings after a rebase would bear foreign transaction ids.
create or replace function penstock_data.check_subscriptions() returns void
language plpgsql as $$
declare
    v_name text := (
        select s.subname from pg_subscription s
        join pg_subscription_rel r on r.srsubid = s.oid
        join pg_class c on c.oid = r.srrelid
        where c.relnamespace = 'penstock_data'::regnamespace
        limit 1);
begin
    if v_name is not null then
        perform penstock_data.fail('PS005', format('subscription %I still writes to the log: let it catch up and drop it first', v_name));
    end if;
end
$$;

-- Sequences are not carried by logical replication: put each above all that was drawn from it.  Columns are found in
-- the catalog: those that draw from the sequence, and those named after it (message_id, message_ids; queue_id for the
-- ids of queues).  Messages and receipts outlive their topic and queue, and positions remember ids whose messages are
-- gone.
create or replace function penstock_data.raise_sequences() returns void
language plpgsql as $$
declare
    v_sequence regclass;
    v_columns  text;
    v_highest  bigint;
begin
    for v_sequence, v_columns in
        select s.oid,
            string_agg(format(case when a.attndims > 0 then 'select max(u.id) from %2$s, unnest(%1$I) u(id)' else 'select max(%I) from %s' end,
                a.attname, c.oid::regclass), ' union all ')
        from pg_class s
        join pg_class c on c.relnamespace in ('penstock_data'::regnamespace, 'pgqs_data'::regnamespace)
            and c.relkind in ('r', 'p') and not c.relispartition
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where s.relkind = 'S' and s.relnamespace in ('penstock_data'::regnamespace, 'pgqs_data'::regnamespace)
          and (
            a.attname in (s.relname, s.relname || 's', regexp_replace(s.relname, 's_id_seq$', '_id'))
            or s.relname = 'message_id' and a.attname in ('first_id', 'last_id', 'to_id', 'next_from_id')
            or exists (         -- an identity column
                select from pg_depend d
                where d.classid = 'pg_class'::regclass and d.objid = s.oid
                  and d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid and d.refobjsubid = a.attnum)
            or exists (         -- a default
                select from pg_depend d join pg_attrdef f on f.oid = d.objid
                where d.classid = 'pg_attrdef'::regclass and f.adrelid = c.oid and f.adnum = a.attnum
                  and d.refclassid = 'pg_class'::regclass and d.refobjid = s.oid))
        group by s.oid
    loop
        execute format('select max(x.highest) from (%s) x(highest)', v_columns) into v_highest;
        execute format('select setval(%L, $1) from %s s where s.last_value <= $1', v_sequence, v_sequence) using v_highest;
    end loop;
end
$$;

-- Tables are not made by logical replication: a segment that the old server added has none here, and one that it
-- dropped is still attached.
create or replace function penstock_data.match_segments() returns void
language plpgsql as $$
declare
    v_segment penstock_data.segments;
    v_table   text;
begin
    insert into penstock_data.segments (kind, number)
    select substring(c.relname from '^(.*)_'), substring(c.relname from '[0-9]+$')::int
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('penstock_data.messages'::regclass, 'penstock_data.receipts'::regclass) and c.relname !~ '_0$'
    on conflict do nothing;
    for v_segment in select * from penstock_data.segments s loop
        v_table := format('penstock_data.%I', v_segment.kind || '_' || v_segment.number);
        if to_regclass(v_table) is null then
            execute format('create table %s partition of penstock_data.%I for values in (%s)', v_table, v_segment.kind, v_segment.number);
        end if;
    end loop;
end
$$;

-- The same for the tables of staged writes.  A write that has lost its table begins again.
create or replace function penstock_data.match_stages() returns void
language plpgsql as $$
declare
    v_table regclass;
begin
    delete from penstock_data.stages s where to_regclass(penstock_data.stage_table(s.id)) is null;
    for v_table in
        select c.oid from pg_class c
        where c.relnamespace = 'penstock_stage'::regnamespace and c.relkind = 'r'
          and not exists (select from penstock_data.stages s where to_regclass(penstock_data.stage_table(s.id)) = c.oid)
    loop
        execute format('drop table %s', v_table);
    end loop;
end
$$;
