-- A topic: a named append-only log.
create table if not exists penstock_data.topics (
    id          bigint generated always as identity primary key,
    name        text not null unique,
    retention   interval not null default '0',     -- keep read messages at least this long, for replays and late queues
    always      text[] not null default '{}',      -- channels notified on every publish (queues with notify = 'always')
    publishers  name[],                            -- roles allowed to publish; null: every penstock_publisher
    created_at  timestamptz not null default clock_timestamp()
);
