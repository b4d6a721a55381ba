-- Streams that remember which topics they cover, readers that remember what they handed out, and marks that remember
-- the run of the server.
do $$
begin
    if not penstock_data.record_migration(5, 'stream_marks') then
        return;
    end if;
    if not penstock_data.has_column('penstock_data.stream_readers', 'covered') then
        alter table penstock_data.stream_readers add column covered boolean not null default true;
    end if;
    if not penstock_data.has_column('penstock_data.reader_positions', 'given_id') then
        alter table penstock_data.reader_positions add column given_id bigint;
    end if;
    if not penstock_data.has_column('penstock_data.stream_marks', 'boot') then
        alter table penstock_data.stream_marks add column boot bigint not null default 0;
    end if;
    -- schema/tables/indexes.sql creates it with other columns.
    if exists (
        select from pg_attribute a
        where a.attrelid = to_regclass('penstock_data.stream_marks_newest') and a.attnum = 1 and a.attname = 'timeline'
    ) then
        drop index penstock_data.stream_marks_newest;
    end if;
end
$$;
