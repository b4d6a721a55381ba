-- The rotating pieces of the log and of the history.
-- opened_at null: empty and free; closed_at null: written to now; both set: waits until nothing needs it.
create table if not exists penstock_data.segments (
    kind       text not null check (kind in ('messages', 'receipts')),
    number     int  not null check (number > 0),
    opened_at  timestamptz,
    closed_at  timestamptz,
    -- Transactions that may not know it yet, because they used the log when it was added; null: not looked up yet.
    unaware    text[] default '{}',
    freed_by   xid8,        -- the transaction that emptied it
    -- A free one that is not wanted any more: transactions that may still write to it; null: not looked up yet.
    leaving    text[],
    primary key (kind, number)
);
insert into penstock_data.segments (kind, number, opened_at)
select kind, number, case when number = 1 then clock_timestamp() end
from unnest(array['messages', 'receipts']) kind, generate_series(1, 3) number
where not exists (select from penstock_data.segments);
