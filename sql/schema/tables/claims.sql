-- Messages handed to a consumer until a deadline, one row per batch.  A message is in one claim at most, so the lowest
-- id of a claim names it together with queue and token.
-- Rows with an empty token are slices (claim/slices.sql); their first_id is a number from penstock_data.slice, above
-- all ids.
create sequence if not exists penstock_data.slice;

create table if not exists penstock_data.claims (
    queue_id     bigint      not null,
    first_id     bigint      not null,
    deadline     timestamptz not null,
    claimed_at   timestamptz not null,
    token        text        not null,
    message_ids  bigint[]    not null,
    attempts     int[],                 -- null: the first attempt of every message
    lanes        text[],                -- fifo and fair queues: the key of each message
    histories    jsonb,                 -- {"<id>": [earlier attempts]} of the messages that have some;
                                        -- "begun": whether the attempt counts (claim/defer_suspects.sql), in claims of
                                        -- one message
    primary key (queue_id, token, first_id)
) with (toast_tuple_target = 8160);
-- Partial, though every row is in it: only a statement that repeats the condition can use it.  Else a plan made while
-- the table was empty might look up a token here, and walk over all claims of the queue.
do $$
begin
    if to_regclass('penstock_data.claims_deadline') is null then
        create index claims_deadline on penstock_data.claims (queue_id, deadline) where deadline > '-infinity';
    end if;
end
$$;
