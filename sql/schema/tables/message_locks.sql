-- Locks on single messages of a queue: a claim locks what it takes from the log, so that claims ahead of the position
-- (claim/ahead.sql) leave it alone before it has committed.
-- A message locks the row of its number (penstock_data.message_slot).  Messages that lie 16,384 ids apart share a row; then the
-- second one is taken later.
-- The rows below zero are gates: one is locked while a call waits for a claim lock alone, and then no claim goes ahead.
create table if not exists penstock_data.message_locks (
    slot      int primary key,
    noted_by  xid8                      -- the last transaction that claimed a message of this number ahead of the position
);
insert into penstock_data.message_locks (slot) select generate_series(-1024, 16383) on conflict do nothing;
