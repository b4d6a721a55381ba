-- Row types that internal functions hand to each other.
do $$
begin
    if to_regtype('penstock_data.pick') is null then
        -- What picking scheduled messages yields: the messages in claim order, and the position that goes with them.
        create type penstock_data.pick as (
            message_ids  bigint[],
            attempts     int[],
            position     penstock_data.positions
        );
    end if;
    if to_regtype('penstock_data.claimed_message') is null then
        -- A claimed message as its consumer gets it.
        create type penstock_data.claimed_message as (
            message_id         bigint,
            payload            jsonb,
            headers            jsonb,
            key                text,
            priority           int,
            delivery_attempts  int,
            vt                 timestamptz,
            published_at       timestamptz,
            correlation_id     text,
            tenant_id          text
        );
    end if;
    if to_regtype('penstock_data.locked_queue') is null then
        -- What a claim knows of its queue once it holds the claim lock.
        create type penstock_data.locked_queue as (
            id         bigint,
            topic_id   bigint,
            retention  interval,
            direct     boolean,         -- its plain messages may be claimed straight from the log
            clock      timestamptz,     -- clock_timestamp(), without the shift of tests
            last_id    bigint           -- queues that read by ids: the last message id before the lock was taken
        );
    end if;
    if to_regtype('penstock_data.care') is null then
        -- What a claim with care knows before it takes anything.
        create type penstock_data.care as (
            queue       penstock_data.queues,
            position    penstock_data.positions,
            snapshot    pg_snapshot,    -- the caller's transaction is open in it
            started_at  timestamptz,    -- by the clock of the server
            now         timestamptz,
            deadline    timestamptz,
            awaited     boolean,        -- the consumer is registered as waiting
            "full"      boolean,        -- look below the floor as well
            needed      boolean         -- something but plain messages wants attention
        );
    end if;
    if to_regtype('penstock_data.entry') is null then
        -- A message of the log on its way into a queue's schedule.
        create type penstock_data.entry as (
            message_id  bigint,
            lane        text,
            priority    int,
            visible_at  timestamptz,
            history     jsonb,
            expires_at  timestamptz
        );
    end if;
end
$$;
