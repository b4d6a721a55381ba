-- Streams that remember which topics they cover, and readers that remember what they handed out.
alter table penstock_data.stream_readers add column if not exists covered boolean not null default true;
alter table penstock_data.reader_positions add column if not exists given_id bigint;
