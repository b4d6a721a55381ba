-- What a ReceiveMessage with a ReceiveRequestAttemptId was given, so that its repetition is given the same.
create table if not exists pgqs_data.receive_attempts (
    queue_id    bigint not null references penstock_data.queues on delete cascade,
    attempt_id  text not null,
    token       text not null,
    message_ids bigint[] not null,
    received_at timestamptz not null,
    primary key (queue_id, attempt_id)
);
do $$
begin
    if to_regclass('pgqs_data.receive_attempts_age') is null then
        create index receive_attempts_age on pgqs_data.receive_attempts (received_at);
    end if;
end
$$;
