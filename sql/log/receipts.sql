-- The same as next_offset for history.  A batch ends with a transaction, so it may hold more receipts than max_rows.
-- Roles: consumer, admin
create or replace function penstock.next_receipts(
    queue_ids bigint[], start_offset jsonb, target jsonb default null, max_rows bigint default null, min_rows bigint default null,
    stream_name text default null
) returns table (end_offset jsonb, row_count bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stream_id bigint := penstock_data.stream_id(stream_name);
    v_start     jsonb;
    v_catch_up  jsonb;
    v_ids       bigint[];
    v_from      jsonb;
    v_to        jsonb;
    v_new       boolean := false;
    v_rows      bigint;
    v_cut       xid8;
    v_more      boolean;
begin
    perform penstock_data.check_history(queue_ids);
    perform penstock_data.check_offset(start_offset, v_stream_id);
    end_offset := start_offset;
    row_count := 0;
    v_start := penstock_data.ready_to_go_on('queues', start_offset, queue_ids, v_stream_id, true);
    v_catch_up := v_start -> 'catch_up';
    if v_catch_up is not null then
        v_ids := array[(v_catch_up ->> 'of')::bigint];
        v_from := v_catch_up -> 'from';
        v_to := start_offset;
    else
        v_ids := penstock_data.listed_ids(v_start -> 'queues');
        v_from := v_start;
        v_to := coalesce(penstock_data.window_end(v_start), penstock_data.target_point(target));
    end if;
    perform penstock_data.check_history(v_ids);
    if v_to is null then
        v_new := true;
        v_to := jsonb_build_object('snap', penstock_data.snapshot_without_me(pg_current_snapshot()));
    elsif v_to ->> 'snap' = v_from ->> 'snap' then
        return next;
        return;
    end if;
    select coalesce(sum(s.messages), 0), min(s.xid) filter (where s.total >= max_rows),
        count(*) > max_rows or max(s.xid) > min(s.xid) filter (where s.total >= max_rows)
    into v_rows, v_cut, v_more
    from (
        select s.xid, s.messages, sum(s.messages) over (order by s.xid) as total
        from penstock_data.receipt_sizes(v_ids, (v_from ->> 'snap')::pg_snapshot, (v_to ->> 'snap')::pg_snapshot,
            penstock_data.after_xid(start_offset, v_catch_up), '9223372036854775807', greatest(max_rows, min_rows, 1) + 1) s
    ) s;
    v_more := coalesce(v_more and v_cut is not null, false);
    if v_catch_up is not null then
        end_offset := case when v_more then jsonb_set(v_start, '{catch_up,xid}', to_jsonb(v_cut::text))
            else penstock_data.caught_up(v_start, 'queues') end;
    elsif v_rows >= coalesce(min_rows, 1) or v_start ? 'to' then
        if v_new then
            v_to := penstock_data.stamped(v_to, v_stream_id);
        end if;
        end_offset := penstock_data.offset_behind(v_start, v_to, case when v_more then jsonb_build_object('xid', v_cut) end);
    else
        return next;
        return;
    end if;
    row_count := case when max_rows is not null and not v_more then v_rows end;
    return next;
end
$$;
comment on function penstock.next_receipts(bigint[], jsonb, jsonb, bigint, bigint, text) is 'Where the next batch of a stream of receipts ends.';

-- The same as split_log for history: transactions above after_xid and up to through_xid.
-- Roles: consumer, admin
create or replace function penstock.split_receipts(queue_ids bigint[], start_offset jsonb, end_offset jsonb, max_rows bigint)
returns table (after_xid xid8, through_xid xid8)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_catch_up jsonb := end_offset -> 'catch_up';
    v_from     jsonb := coalesce(v_catch_up -> 'from', start_offset);
    v_to       jsonb := case when v_catch_up is null then coalesce(end_offset -> 'to', end_offset) else start_offset end;
    v_after    xid8;
begin
    perform penstock_data.check_history(queue_ids);
    perform penstock_data.check_offset(start_offset);
    perform penstock_data.check_offset(end_offset);
    perform penstock_data.check_range('max_rows', max_rows, 1, 1000000000);
    if start_offset = end_offset then
        return;
    end if;
    v_after := penstock_data.after_xid(start_offset, v_catch_up);
    return query
    with sizes as (
        select s.xid, sum(s.messages) as messages
        from penstock_data.receipt_sizes(penstock_data.batch_members(queue_ids, end_offset, 'queues'),
            (v_from ->> 'snap')::pg_snapshot, (v_to ->> 'snap')::pg_snapshot, v_after,
            coalesce(v_catch_up ->> 'xid', end_offset ->> 'xid', '9223372036854775807')::xid8, null) s
        group by s.xid
    ), places as (
        select s.xid, (sum(s.messages) over (order by s.xid) - 1)::bigint / max_rows as place from sizes s
    ), pieces as (
        select max(p.xid) as last from places p group by p.place
    )
    select coalesce(lag(p.last) over (order by p.last), v_after), p.last from pieces p;
end
$$;
comment on function penstock.split_receipts(bigint[], jsonb, jsonb, bigint) is 'Cut the receipts between two offsets into pieces.';
