-- Messages that used up their attempts: whole, with the last error and the history.
create table if not exists penstock_data.dead_letters (
    id                 bigint generated always as identity primary key,
    queue_id           bigint not null references penstock_data.queues on delete cascade,
    message_id         bigint not null,
    delivery_attempts  int not null,
    last_error         text,
    history            jsonb not null default '[]',
    moved_at           timestamptz not null,
    published_at       timestamptz not null,
    priority           int not null default 0,
    expires_at         timestamptz,
    key                text,
    correlation_id     text,
    tenant_id          text,
    payload            jsonb not null,
    headers            jsonb,
    unique (queue_id, message_id)
);
