-- Dead letters that were requeued: for this queue they lapse at this time, whatever the log says.  The row of the log
-- is not changed, because other queues use it, and consumers still see when the message was published.  Only a message
-- whose time is over by the log is looked up here.  A row has no effect once its own time is over.
create table if not exists penstock_data.renewals (
    queue_id    bigint      not null,
    message_id  bigint      not null,
    lapses_at   timestamptz not null,
    primary key (queue_id, message_id)
);
do $$
begin
    if to_regclass('penstock_data.renewals_over') is null then
        create index renewals_over on penstock_data.renewals (queue_id, lapses_at);
    end if;
end
$$;
