-- Streams that remember which topics they cover, readers that remember what they handed out, and marks that remember the run
-- of the server.
alter table penstock_data.stream_readers add column if not exists covered boolean not null default true;
alter table penstock_data.reader_positions add column if not exists given_id bigint;
alter table penstock_data.stream_marks add column if not exists boot bigint not null default 0;

do $$
begin
    if exists (
        select from pg_attribute a
        where a.attrelid = to_regclass('penstock_data.stream_marks_newest') and a.attnum = 1 and a.attname = 'timeline'
    ) then
        drop index penstock_data.stream_marks_newest;
    end if;
end
$$;
-- Here and not beside the table: an earlier installation gets the column above.
create index if not exists stream_marks_newest on penstock_data.stream_marks (boot, lsn);
create index if not exists stream_marks_of_stream on penstock_data.stream_marks (boot, stream_id, lsn);
