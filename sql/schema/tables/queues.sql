-- A queue: a named subscription to a topic.  Written when it is created or granted, never while it is consumed.
create table if not exists penstock_data.queues (
    id                     bigint generated always as identity primary key,
    name                   text not null unique,
    topic_id               bigint not null references penstock_data.topics on delete cascade,
    exclusive              boolean not null default false,
    max_delivery_attempts  int not null default 3,          -- 0: never dead
    ordering               text not null default 'standard' check (ordering in ('standard', 'fifo', 'fair')),
    retry_base             interval not null default '1 second',
    retry_cap              interval not null default '5 minutes',
    retention              interval,                        -- an unclaimed message lapses after this; null: never
    filter                 jsonb,                           -- {"headers": …, "payload": …}, both by containment
    notify                 text not null default 'waiting' check (notify in ('waiting', 'always', 'never')),
    -- fifo: a claim takes as many consecutive messages of a key as fit, and the key waits until all are finished; else
    -- one message of a key at a time.
    runs                   boolean not null default false,
    starts_at              timestamptz,                     -- messages published before it are not for this queue
    consumers              name[],                          -- roles allowed to consume; null: every penstock_consumer
    paused_at              timestamptz,                     -- gives out nothing since then; null: it is not paused
    -- A direct queue claims plain messages straight from the log; any other has all of them scheduled first.
    direct                 boolean not null generated always as
                           (ordering = 'standard' and filter is null and starts_at is null) stored,
    created_at             timestamptz not null default clock_timestamp()
);
do $$
begin
    if to_regclass('penstock_data.queues_topic') is null then
        create index queues_topic on penstock_data.queues (topic_id);
    end if;
end
$$;

-- When an exclusive queue ends.  Apart from queues, because it is updated again and again.
create table if not exists penstock_data.keep_alives (
    queue_id  bigint primary key references penstock_data.queues on delete cascade,
    until     timestamptz not null
);
