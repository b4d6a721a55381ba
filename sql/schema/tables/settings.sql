-- Settings of this installation: one row, changed by penstock.configure().
create table if not exists penstock_data.settings (
    single             boolean  primary key default true check (single),
    message_segment    int      not null default 1,            -- where publishers write now
    receipt_segment    int      not null default 1,            -- where receipts are written now
    clock_shift        interval not null default '0',          -- tests move time with it; zero in production
    lock_wait          interval not null default '1 second',   -- how long a claim waits for another claim on its queue
    segment_bytes      bigint   not null default 268435456 check (segment_bytes > 0),    -- a segment is switched at this size
    segment_age        interval not null default '1 day',      -- or at this age
    receipt_retention  interval not null default '7 days',     -- how long history is kept
    dedupe_window      interval not null default '5 minutes',  -- how long a dedupe key is remembered
    max_payload_bytes  int      not null default 16777216 check (max_payload_bytes > 0),
    max_log_bytes      bigint   check (max_log_bytes > 0),      -- publishing is refused beyond it; null: no limit
    log_is_full        boolean  not null default false,         -- set and cleared by maintain()
    incarnation_xid    xid,                                     -- see incarnation below
    -- Messages that windows read are in the segments from the first to the last one: log/segments.sql.
    first_segment      int      not null default 1,
    last_segment       int      not null default 2147483647
);
do $$
begin
    -- Only in a new installation: an earlier one gets the columns later, by a migration.
    if not exists (select from penstock_data.settings) then
        insert into penstock_data.settings (last_segment) values (1);
    end if;
end
$$;

-- Which cluster the stored transaction ids belong to: this row's xmin must be the one noted in settings.  A dump and
-- restore, or logical replication, writes the row anew with another xmin, so a log whose ids mean nothing here is
-- noticed without any cost, while pg_upgrade, physical copies and copied databases, where the ids stay true, raise no
-- alarm.  A restore may repeat the xmin by chance, so a session looks at more signs once: see origin and
-- penstock_data.foreign_log().
create table if not exists penstock_data.incarnation (
    single   boolean primary key default true check (single),
    cluster  bigint not null            -- the system identifier, for people and for stream offsets
);
insert into penstock_data.incarnation (cluster)
select system_identifier from pg_control_system() on conflict do nothing;
update penstock_data.settings
set incarnation_xid = (select i.xmin from penstock_data.incarnation i)
where incarnation_xid is null;

-- The sign that no restore repeats: two rows, each with the transaction id that wrote it, which must still be its xmin.
-- penstock_data.mark_origin() writes the first row in a subtransaction and the second one after it in the transaction,
-- so the first row has the higher id.  COPY gives all rows of a table one id, and so does logical replication; INSERTs
-- in the order of the rows give the first one the lower id.  VACUUM FREEZE, VACUUM FULL and pg_upgrade leave xmin as it
-- is.
create table if not exists penstock_data.origin (
    step    int primary key check (step in (1, 2)),
    writer  xid not null
);
