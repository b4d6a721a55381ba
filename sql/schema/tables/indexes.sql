-- Indexes on columns that a migration adds.  Here and not beside their tables: an earlier installation gets the columns
-- after `create table if not exists` has passed over the tables.
do $$
begin
    if to_regclass('penstock_data.scheduled_expiring') is null then
        create index scheduled_expiring on penstock_data.scheduled (queue_id, expires_at) where expires_at is not null;
    end if;
    if to_regclass('penstock_data.backlog_expiring') is null then
        create index backlog_expiring on penstock_data.backlog (queue_id, expires_at) where expires_at is not null;
    end if;
    if to_regclass('penstock_data.stream_marks_newest') is null then
        create index stream_marks_newest on penstock_data.stream_marks (boot, lsn);
    end if;
    if to_regclass('penstock_data.stream_marks_of_stream') is null then
        create index stream_marks_of_stream on penstock_data.stream_marks (boot, stream_id, lsn);
    end if;
end
$$;
