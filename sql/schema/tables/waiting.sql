-- Consumers and readers that wait for a notification: one row per consumer and lease.  Unlogged: after a crash each of
-- them polls once.  Queries read the index from the current time on, so rows whose lease has ended cost nothing.
create unlogged table if not exists penstock_data.waiting (
    topic_id  bigint not null,
    until     timestamptz not null,
    channel   text not null,
    queue_id  bigint,                   -- null: a reader waits
    token     text                      -- a claim with this token that finds something ends the wait; null: any claim does
);
do $$
begin
    if to_regclass('penstock_data.waiting_topic') is null then
        create index waiting_topic on penstock_data.waiting (topic_id, until);
    end if;
end
$$;
