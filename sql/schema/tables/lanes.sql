-- One lane per key of a fifo or fair queue.  Appended like positions: the highest seq of a lane counts.
create sequence if not exists penstock_data.lane_seq;

create table if not exists penstock_data.lanes (
    queue_id    bigint      not null,
    lane        text        not null,
    seq         bigint      not null default nextval('penstock_data.lane_seq'),
    busy        boolean     not null,   -- fifo: its head is scheduled or claimed, the others wait in backlog
    last_rank   bigint      not null,   -- fifo: rank of the head in backlog (runs: all up to it are finished); fair: the rank given last
    changed_at  timestamptz not null,
    primary key (queue_id, lane, seq)
);

-- fifo: the messages behind the head of their lane, in order.  Only a claim (under the queue's lock) touches it.
-- In queues with runs all messages of the lane that are not finished, those that were handed out included.
create table if not exists penstock_data.backlog (
    queue_id    bigint      not null,
    lane        text        not null,
    rank        bigint      not null default nextval('penstock_data.lane_seq'),
    message_id  bigint      not null,
    visible_at  timestamptz not null,
    priority    int         not null,
    history     jsonb,
    attempt     int         not null default 0,
    held        boolean     not null default false,     -- runs: it is out, claimed or in the schedule
    expires_at  timestamptz,                            -- as in scheduled
    primary key (queue_id, lane, rank)
);
do $$
begin
    if to_regclass('penstock_data.backlog_message') is null then
        create index backlog_message on penstock_data.backlog (queue_id, message_id);
    end if;
end
$$;
