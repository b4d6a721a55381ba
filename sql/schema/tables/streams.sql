-- Streams of a named group: where it began, and how far it is.  For messages each topic has a reader besides, which
-- keeps the log and shows the lag.
create table if not exists penstock_data.streams (
    id            bigint generated always as identity primary key,
    name          text not null unique,
    entity        text not null check (entity in ('messages', 'receipts')),
    -- The first answer to "where do we begin": the checkpoint of a stream does not hold it, and a replay of the first
    -- batch needs the very same one.
    start_offset  jsonb not null,
    created_at    timestamptz not null default clock_timestamp()
);

-- Appended like positions.
create table if not exists penstock_data.stream_positions (
    stream_id       bigint not null references penstock_data.streams on delete cascade,
    seq             bigint not null,
    current_offset  jsonb not null,
    committed_at    timestamptz not null,
    primary key (stream_id, seq)
);

-- Readers that belong to a stream.
create table if not exists penstock_data.stream_readers (
    stream_id  bigint not null references penstock_data.streams on delete cascade,
    reader_id  bigint not null references penstock_data.readers on delete cascade,
    covered    boolean not null default true,   -- the stream's offset stands for this topic; false: it has still to catch up
    primary key (stream_id, reader_id)
);

-- Offsets that left the database: what it remembers of them, written before they leave.  The row of an offset comes
-- later in the WAL than everything that the offset stands on, so a row that is there proves that all of it survived.
create table if not exists penstock_data.stream_marks (
    stream_id  bigint not null,         -- 0: an offset of no named stream
    timeline   int not null,
    lsn        pg_lsn not null,         -- read after the snapshot of the offset was taken
    point      jsonb not null,
    made_at    timestamptz not null,
    boot       bigint not null default 0    -- the run of the server that gave it: its start in microseconds; 0: not noted
);

-- How far the log of each topic has been emptied, so that a stream whose messages are gone is told.
create table if not exists penstock_data.emptied (
    topic_id    bigint primary key,
    xid         xid8 not null,          -- the newest transaction whose messages are gone
    emptied_at  timestamptz not null
);
