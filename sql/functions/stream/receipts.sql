-- The same as next_offset for history.  A batch ends with a transaction, so it may hold more receipts than max_rows.
create or replace function penstock.next_receipts(
    queue_ids bigint[], start_offset jsonb, target jsonb default null, max_rows bigint default null, min_rows bigint default null
) returns table (end_offset jsonb, row_count bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_point jsonb;
    v_after xid8;
    v_rows  bigint;
    v_cut   xid8;
    v_more  boolean;
begin
    perform penstock_data.check_history(queue_ids);
    perform penstock_data.check_offset(start_offset);
    v_after := coalesce(start_offset ->> 'xid', '0');
    end_offset := start_offset;
    row_count := 0;
    v_point := coalesce(start_offset -> 'to', penstock_data.target_point(target), jsonb_build_object('snap', penstock_data.snapshot_without_me(pg_current_snapshot())));
    if v_point ->> 'snap' <> start_offset ->> 'snap' then
        select coalesce(sum(s.messages), 0), min(s.xid) filter (where s.total >= max_rows),
            count(*) > max_rows or max(s.xid) > min(s.xid) filter (where s.total >= max_rows)
        into v_rows, v_cut, v_more
        from (
            select s.xid, s.messages, sum(s.messages) over (order by s.xid) as total
            from penstock_data.receipt_sizes(queue_ids, (start_offset ->> 'snap')::pg_snapshot, (v_point ->> 'snap')::pg_snapshot,
                v_after, '9223372036854775807', greatest(max_rows, min_rows, 1) + 1) s
        ) s;
        if v_rows < coalesce(min_rows, 1) and not start_offset ? 'to' then
            null;
        elsif v_more and v_cut is not null then
            end_offset := start_offset || jsonb_build_object('to', v_point, 'xid', v_cut);
            row_count := null;
        else
            end_offset := (start_offset - '{snap,to,xid}'::text[]) || v_point;
            row_count := case when max_rows is not null then v_rows end;
        end if;
    end if;
    return next;
end
$$;
comment on function penstock.next_receipts(bigint[], jsonb, jsonb, bigint, bigint) is 'Where the next batch of a stream of receipts ends.';

-- The same as split_log for history: transactions above after_xid and up to through_xid.
create or replace function penstock.split_receipts(queue_ids bigint[], start_offset jsonb, end_offset jsonb, max_rows bigint)
returns table (after_xid xid8, through_xid xid8)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_history(queue_ids);
    perform penstock_data.check_offset(start_offset);
    perform penstock_data.check_offset(end_offset);
    perform penstock_data.check_range('max_rows', max_rows, 1, 1000000000);
    return query
    with sizes as (
        select s.xid, sum(s.messages) as messages
        from penstock_data.receipt_sizes(queue_ids, (start_offset ->> 'snap')::pg_snapshot,
            (coalesce(end_offset -> 'to', end_offset) ->> 'snap')::pg_snapshot, coalesce(start_offset ->> 'xid', '0')::xid8,
            coalesce(end_offset ->> 'xid', '9223372036854775807')::xid8, null) s
        group by s.xid
    ), places as (
        select s.xid, (sum(s.messages) over (order by s.xid) - 1)::bigint / max_rows as place from sizes s
    ), pieces as (
        select max(p.xid) as last from places p group by p.place
    )
    select coalesce(lag(p.last) over (order by p.last), coalesce(start_offset ->> 'xid', '0')::xid8), p.last from pieces p;
end
$$;
comment on function penstock.split_receipts(bigint[], jsonb, jsonb, bigint) is 'Cut the receipts between two offsets into pieces.';
