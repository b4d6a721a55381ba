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
    -- A free one: transactions that may still write to it; null: not looked up yet.
    leaving    text[],
    idle       boolean not null default false,      -- free, and no transaction can write to it
    primary key (kind, number)
);
do $$
begin
    -- Only in a new installation: an earlier one gets the column idle later, by a migration.
    if not exists (select from penstock_data.segments) then
        insert into penstock_data.segments (kind, number, opened_at, idle)
        select kind, number, case when number = 1 then clock_timestamp() end, number > 1
        from unnest(array['messages', 'receipts']) kind, generate_series(1, 3) number;
    end if;
end
$$;
