-- Notes of messages that were claimed ahead of the position (claim/ahead.sql), one row each.  The position passes over
-- them, and the claim that moves it deletes the note.
create table if not exists penstock_data.claimed_ahead (
    queue_id    bigint not null,
    xid         xid8   not null,        -- of the message: the log is read in the order of (xid, id)
    message_id  bigint not null,
    lane        text,                   -- fifo: its key
    entered     boolean not null default false,     -- fifo: its lane is busy because of it
    primary key (queue_id, xid, message_id)
);
