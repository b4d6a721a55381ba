-- How far imports have come: a row for each source and topic, written in the transaction that publishes.
create table if not exists penstock_data.imports (
    source      text        not null,
    topic_id    bigint      not null references penstock_data.topics on delete cascade,
    rows_done   bigint      not null,
    changed_at  timestamptz not null,
    primary key (source, topic_id)
);
