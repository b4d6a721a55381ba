-- How far each queue has read.  Appended: the row with the highest seq counts, maintain() trims the others.
-- Updates would leave dead row versions, which vacuum cannot remove while a transaction holds a snapshot.
create table if not exists penstock_data.positions (
    queue_id      bigint      not null,
    seq           bigint      not null,
    -- The window being read: what window_to sees and window_from does not.
    window_from   pg_snapshot not null,
    window_to     pg_snapshot not null,
    last_xid      xid8,                 -- direct queues: read up to (last_xid, last_id); null: the window is used up
    last_id       bigint,               -- other queues: read up to this id; null: the window is used up
    from_id       bigint,               -- other queues: ids of the window lie above from_id …
    to_id         bigint,               -- … and not above to_id
    next_from_id  bigint,               -- from_id of the next window
    -- Flagged messages it sees have been scheduled; scheduled messages whose xid it sees have a place above the floor.
    flagged_from  pg_snapshot not null,
    flagged_to    pg_snapshot,          -- a flagged window too large for one claim, read …
    flagged_xid   xid8,                 -- … up to here
    flagged_id    bigint,
    receipts_from pg_snapshot,          -- fifo: receipts it sees have been applied to the lanes
    turn          bigint,               -- fair: the virtual time, the highest rank claimed so far
    -- The moving floor: claims whose deadline, and scheduled messages whose time, is not above it have been dealt with.
    floor         timestamptz not null,
    full_scan_at  timestamptz not null, -- when to look below the floor again
    -- Direct queues: until then no claim ends and no message that the queue has seen becomes due.
    attend_at     timestamptz not null,
    levels        int[],                -- priorities in use, highest first; null: only 0
    -- The floor of each level is a place: behind this message of this moment; null: behind all of floor.
    level_floors     timestamptz[],
    level_floor_ids  bigint[],
    -- fair: the same by rank; null: nothing was claimed yet.
    level_turns      bigint[],
    level_turn_ids   bigint[],
    -- Slices (claim/slices.sql): the first that may hold messages; null: there are none.
    slices_from   bigint,
    slice_size    int,                  -- how many messages were taken for the last one …
    sliced_at     timestamptz,          -- … and when
    ahead         boolean,              -- claimed_ahead may have notes of the queue; null: it has none
    read_size     int,                  -- other queues: how many messages of the log were read at a time
    primary key (queue_id, seq)
);
