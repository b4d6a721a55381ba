-- Who sleeps and wants to be woken: one row per consumer and lease.  Unlogged: after a crash everybody polls once.
-- Read from now on, so that rows of the past are never in the way.
create unlogged table if not exists penstock_data.waiting (
    topic_id  bigint not null,
    until     timestamptz not null,
    channel   text not null,
    queue_id  bigint,                   -- null: a reader waits
    token     text                      -- whose wait it is: their next claim that finds something ends it; null: anybody's does
);
do $$
begin
    if to_regclass('penstock_data.waiting_topic') is null then
        create index waiting_topic on penstock_data.waiting (topic_id, until);
    end if;
end
$$;
