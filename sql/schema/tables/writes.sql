-- Staged writes: tasks copy rows into a stage, and one transaction publishes them and notes it in the ledger.

-- The ledger: which batch of which write was published.
create table if not exists penstock_data.writes (
    write_id      text        not null,
    batch_id      bigint      not null,
    row_count     bigint      not null,
    committed_at  timestamptz not null,
    keep          boolean     not null,     -- false: no caller can ask for the batch again after a day
    primary key (write_id, batch_id)
);

-- The stages: one unlogged table in schema penstock_stage for each write that has not ended.
create table if not exists penstock_data.stages (
    id        bigint generated always as identity primary key,
    write_id  text not null,
    batch_id  bigint not null,              -- -1: for all batches, which come one after the other
    writer    name not null,                -- who may fill it
    used_at   timestamptz not null,
    unique (write_id, batch_id)
);

create sequence if not exists penstock_data.part_id;
