-- Named stream readers: a position in a topic's log, without claims.
create table if not exists penstock_data.readers (
    id          bigint generated always as identity primary key,
    name        text not null unique,
    topic_id    bigint not null references penstock_data.topics on delete cascade,
    consumers   name[],                 -- roles allowed to read and commit; null: every penstock_consumer
    created_at  timestamptz not null default clock_timestamp()
);

-- Appended like positions.  Rows above last_id of the window have been handed out at most, not committed.
create table if not exists penstock_data.reader_positions (
    reader_id    bigint not null,
    seq          bigint not null,
    window_from  pg_snapshot not null,
    window_to    pg_snapshot not null,
    from_id      bigint not null,
    to_id        bigint not null,
    next_from_id bigint not null,
    last_id      bigint,                -- committed up to here; null: the window is used up
    starts_at    timestamptz,           -- messages published before it are passed over
    committed_at timestamptz,
    given_id     bigint,                -- the highest id of the window that was handed out; null: not known
    primary key (reader_id, seq)
);
