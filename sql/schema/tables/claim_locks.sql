-- The claim lock of each queue: a row that a claim locks until its transaction ends (lib/locks.sql).
-- A row and not an advisory lock: any role that may connect can hold an advisory lock, a row of this table only the
-- engine.  Unlogged, so that a claim that finds nothing writes no WAL of its own.  After a crash the table is empty;
-- until maintain() has filled it again, the row in queues is locked instead.
create unlogged table if not exists penstock_data.claim_locks (
    queue_id  bigint primary key references penstock_data.queues on delete cascade
);
insert into penstock_data.claim_locks (queue_id)
select q.id from penstock_data.queues q
where not exists (select from penstock_data.claim_locks l where l.queue_id = q.id);
