-- History: what became of each claim, one row per batch.  Append-only, in segments of its own.
create table if not exists penstock_data.receipts (
    xid          xid8        not null default pg_current_xact_id(),
    queue_id     bigint      not null,
    claimed_at   timestamptz,
    ended_at     timestamptz not null,
    segment      int         not null,
    -- acked, failed, released, expired, dead or lapsed.  No check constraint: it would be parsed anew at every ack.
    outcome      text        not null,
    token        text,
    message_ids  bigint[]    not null,
    attempts     int[],                 -- null: the first attempt of every message
    lanes        text[],                -- fifo queues: the key of each message, so that a claim learns which lane is free
    error        text
) partition by list (segment);

do $$
begin
    if to_regclass('penstock_data.receipts_window') is null then
        create index receipts_window on penstock_data.receipts (queue_id, xid);
    end if;
end
$$;

do $$
begin
    if to_regclass('penstock_data.segments') is null then
        create table penstock_data.receipts_1 partition of penstock_data.receipts for values in (1);
        create table penstock_data.receipts_2 partition of penstock_data.receipts for values in (2);
        create table penstock_data.receipts_3 partition of penstock_data.receipts for values in (3);
    end if;
end
$$;
