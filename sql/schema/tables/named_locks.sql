-- Locks on names that have no row of their own: a write, the settings of an SQS queue, the
-- senders of a FIFO queue that SQS did not create.
-- A name locks the row of its hash (penstock_data.lock_name), so two names may wait for each other without need.
create table if not exists penstock_data.named_locks (
    slot  int primary key
);
insert into penstock_data.named_locks (slot) select generate_series(0, 4095) on conflict do nothing;
