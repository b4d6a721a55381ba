-- Messages of one queue with a place of their own: delayed, retrying, prioritised, or of a queue with an ordering.
create table if not exists penstock_data.scheduled (
    queue_id    bigint      not null,
    message_id  bigint      not null,
    visible_at  timestamptz not null,
    rank        bigint,                         -- fair: its turn; null: goes by visible_at
    priority    int         not null default 0,
    attempt     int         not null default 0, -- how often it has been claimed
    lane        text,                           -- fifo and fair: its key
    history     jsonb,                          -- earlier attempts: [{attempt, claimed_at, ended_at, outcome, error}]
    -- The transaction that gave it back without holding the queue's lock: it may commit when claims have passed its
    -- place already, so the next claim that sees the transaction looks after it.  Null: placed under the lock.
    xid         xid8,
    expires_at  timestamptz,                    -- when the message expires, so that maintain() finds it; null: never
    primary key (queue_id, message_id)
);
do $$
begin
    if to_regclass('penstock_data.scheduled_due') is null then
        create index scheduled_due on penstock_data.scheduled (queue_id, priority, visible_at, message_id)
            where rank is null;
    end if;
    if to_regclass('penstock_data.scheduled_ranked') is null then
        create index scheduled_ranked on penstock_data.scheduled (queue_id, priority, rank, message_id)
            where rank is not null;
    end if;
    if to_regclass('penstock_data.scheduled_given_back') is null then
        create index scheduled_given_back on penstock_data.scheduled (queue_id, xid)
            where xid is not null;
    end if;
end
$$;
