-- Do the stored transaction ids belong to this server?  (docs/operate/restore.md)

-- Note that they do, in a way that no restore repeats: see the table origin.
create or replace function penstock_data.mark_origin() returns void
language plpgsql as $$
begin
    delete from penstock_data.origin;
    -- Takes the lower id now; the row's last version is written below, behind the first row.
    insert into penstock_data.origin (step, writer) values (2, '0');
    begin
        insert into penstock_data.origin (step, writer) values (1, '0');
        update penstock_data.origin o set writer = o.xmin where o.step = 1;
    exception when sqlstate 'PS000' then
        null;       -- never raised: a block with a handler is a subtransaction, which has a higher id
    end;
    update penstock_data.origin o set writer = o.xmin where o.step = 2;
end
$$;

-- Is anything stored that this server has not given yet: a transaction id not below p_next, or a message id that was
-- not drawn?  Index probes only, some for each topic, queue and reader; p_most: of the newest so many of them, null: of
-- all.  Stable, so that a statement that computes p_next as well looks at both at one moment.
create or replace function penstock_data.stored_ahead(p_next xid8, p_most int) returns boolean
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
begin
    return exists (
        select from (select * from penstock_data.queues order by id desc limit p_most) q
        cross join lateral (
            select * from penstock_data.positions p where p.queue_id = q.id order by p.seq desc limit 1) p
        where pg_snapshot_xmax(p.window_to) > p_next or pg_snapshot_xmax(p.flagged_from) > p_next
           or pg_snapshot_xmax(p.flagged_to) > p_next or pg_snapshot_xmax(p.receipts_from) > p_next)
    or exists (
        select from (select * from penstock_data.readers order by id desc limit p_most) r
        cross join lateral (
            select * from penstock_data.reader_positions p where p.reader_id = r.id order by p.seq desc limit 1) p
        where pg_snapshot_xmax(p.window_to) > p_next)
    or exists (
        select from penstock_data.streams s
        where pg_snapshot_xmax((penstock_data.stream_offset(s) ->> 'snap')::pg_snapshot) > p_next)
    or exists (
        select from (select * from penstock_data.topics order by id desc limit p_most) t
        cross join lateral (
            select m.xid from penstock_data.messages m where m.topic_id = t.id order by m.xid desc limit 1) m
        where m.xid >= p_next)
    or exists (
        select from (select * from penstock_data.topics order by id desc limit p_most) t
        cross join lateral (
            select m.id from penstock_data.messages m where m.topic_id = t.id order by m.id desc limit 1) m
        where m.id > penstock_data.last_message_id())
    or exists (
        select from (select * from penstock_data.topics order by id desc limit p_most) t
        cross join lateral (
            select f.xid from penstock_data.flags f where f.topic_id = t.id order by f.xid desc limit 1) f
        where f.xid >= p_next)
    or exists (
        select from (select * from penstock_data.queues order by id desc limit p_most) q
        cross join lateral (
            select r.xid from penstock_data.receipts r where r.queue_id = q.id order by r.xid desc limit 1) r
        where r.xid >= p_next)
    or exists (
        select from (select * from penstock_data.queues order by id desc limit p_most) q
        cross join lateral (
            select d.xid from penstock_data.scheduled d where d.queue_id = q.id and d.xid is not null order by d.xid desc limit 1) d
        where d.xid >= p_next)
    or exists (select from penstock_data.emptied e where e.xid >= p_next);
end
$$;

-- Why the stored transaction ids are not of this server; null: they are.  p_most as in stored_ahead.
create or replace function penstock_data.foreign_log(p_most int default null) returns text
language plpgsql as $$
declare
    v_ahead boolean;
begin
    if (select i.xmin = s.incarnation_xid from penstock_data.settings s, penstock_data.incarnation i) is not true
       or (select count(*) = 2 and bool_and(o.xmin = o.writer) from penstock_data.origin o) is not true then
        return 'this database was restored from another cluster';
    end if;
    -- What is stored lies in the past of the session that sees it.  Only the caller's own writes may be newer than its
    -- snapshot, and then a new transaction id decides, where one can be had.  All in a subtransaction that is undone:
    -- else the caller would hold locks on every segment until it ends, and none could be emptied.
    begin
        v_ahead := (select penstock_data.stored_ahead(pg_snapshot_xmax(pg_current_snapshot()), p_most))
            and (current_setting('transaction_read_only') = 'on' or (select penstock_data.stored_ahead(penstock_data.fresh_xid(), p_most)));
        raise exception 'undo' using errcode = 'PS000';
    exception when sqlstate 'PS000' then
        null;
    end;
    if v_ahead then
        return 'the log was written in another cluster: it holds ids that this server has not given yet';
    end if;
    return null;
end
$$;

-- A new installation is at home.  An earlier one, which has no such rows yet, goes by the other signs.
do $$
begin
    if not exists (select from penstock_data.origin) then
        perform penstock_data.mark_origin();
    end if;
end
$$;
