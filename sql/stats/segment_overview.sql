-- The segments of the log and of the history: their size, their state ('written', 'waiting' until nothing needs them,
-- or 'free'), and which queues, readers and retentions a waiting one waits for.  Three segments of messages wait at
-- most and two of receipts, then the one that is written to grows; free ones are dropped beyond five of messages and
-- four of receipts.
-- Roles: monitor, admin
create or replace function penstock.segment_overview()
returns table (
    kind text, number int, state text, bytes bigint, opened_at timestamptz, closed_at timestamptz, held_by text[]
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select s.kind, s.number,
        case when s.opened_at is null then 'free' when s.closed_at is null then 'written' else 'waiting' end,
        pg_total_relation_size(penstock_data.segment_table(s.kind, s.number)), s.opened_at, s.closed_at,
        case
            when s.closed_at is null then '{}'
            when s.kind = 'messages' then penstock_data.held_by(s.number, s.closed_at, clock.now)
            when s.closed_at + c.receipt_retention > clock.now then array['receipt_retention']
            else '{}'
        end
    from penstock_data.segments s
    cross join penstock_data.settings c
    cross join (select penstock_data.clock() as now) clock
    order by s.kind, s.number
$$;
comment on function penstock.segment_overview() is 'The segments of log and history, and what holds them.';
