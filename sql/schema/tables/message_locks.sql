-- Locks on messages of the log: a claim locks what it takes, so that claims ahead of the position (claim/ahead.sql)
-- leave it alone before it has committed.  Each number of a message (penstock_data.message_slot) has two rows: 0 …
-- 16383: the message itself; 16384 … 32767: a mark, which says that all messages up to it are taken.  Messages that lie
-- 16,384 ids apart share their rows; then the second one is taken later.  Of each queue (by the last bits of its id)
-- there are two more: -1024 … -1: the gate, locked while a call waits for the claim lock alone; then no claim goes
-- ahead. -2048 … -1025: the presence of claims ahead.  Its xmax is 0 when there was none since it was updated last.
create table if not exists penstock_data.message_locks (
    slot      int primary key,
    noted_by  xid8,                     -- the last transaction that claimed this message ahead of the position
    renewed   int not null default 0    -- when the presence was updated, in seconds since 1970
);
insert into penstock_data.message_locks (slot) select generate_series(-2048, 32767) on conflict do nothing;
