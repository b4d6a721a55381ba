-- Cut the messages between two offsets, of those topics that the end stands for, into pieces of at most max_rows
-- messages: ids above after_id and up to through_id.  The same offsets always give the same pieces.  min_parts: make at
-- least so many, when there are as many ids; else up to four of ten thousand ids or more, so that a few tasks share the
-- work.
-- Errors: PS001, PS009 topics; PS005, PS015 offsets.
-- Roles: consumer, admin
create or replace function penstock.split_log(
    topic_ids bigint[], start_offset jsonb, end_offset jsonb, max_rows bigint, min_parts int default null
) returns table (after_id bigint, through_id bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    c_most   constant int := 256;      -- pieces cut blindly: above it counting is cheaper than empty pieces
    v_window penstock_data.log_window;
    v_late   penstock_data.log_window;
    v_low    bigint;
    v_parts  bigint;
    c_some   constant bigint := 10000;
begin
    perform penstock_data.check_readable(topic_ids);
    perform penstock_data.check_offset(start_offset);
    perform penstock_data.check_offset(end_offset);
    if start_offset = end_offset then
        return;
    end if;
    topic_ids := penstock_data.batch_members(topic_ids, end_offset, 'topics');
    v_window := penstock_data.window_between(start_offset, end_offset);
    v_late := v_window;
    perform penstock_data.check_range('max_rows', max_rows, 1, 1000000000);
    perform penstock_data.check_range('min_parts', coalesce(min_parts, 1), 1, 100000);
    -- Those who committed late may lie anywhere below.
    v_low := least(greatest(v_window.after_id, v_window.from_id, penstock_data.below_log(topic_ids)), v_window.through_id);
    v_late.through_id := v_low;
    if v_late.after_id < v_late.through_id
       and exists (select from unnest(penstock_data.late_xids(v_window.window_from, v_window.window_to))) then
        return query select c.after_id, c.through_id from penstock_data.cut_by_count(topic_ids, v_late, max_rows) c;
    end if;
    -- An id is used once, so a range of max_rows ids holds at most max_rows messages and nothing need be counted.
    v_parts := greatest(ceil((v_window.through_id - v_low)::numeric / max_rows),
        least(coalesce(min_parts, least(4, (v_window.through_id - v_low) / c_some)), v_window.through_id - v_low));
    if v_parts > greatest(c_most, min_parts) then
        v_window.after_id := v_low;
        return query select c.after_id, c.through_id from penstock_data.cut_by_count(topic_ids, v_window, max_rows) c;
    else
        return query
        select v_low + (v_window.through_id - v_low) * (n - 1) / v_parts, v_low + (v_window.through_id - v_low) * n / v_parts
        from generate_series(1, v_parts) n;
    end if;
end
$$;
comment on function penstock.split_log(bigint[], jsonb, jsonb, bigint, int) is 'Cut the messages between two offsets into pieces of bounded size.';
