-- The offset where the next batch of a stream ends, and how many messages lie before it (null: not counted, some).  The
-- start itself, and 0, when there is nothing.  A batch never goes beyond a window, so limits are exact and a batch that
-- is read again holds the same messages.
-- target: an offset not to go beyond; else the end of the log.  min_rows: with fewer messages the start is returned, unless
-- a window is open.
-- Errors: PS001, PS009 topics; PS005, PS015 offset; PS016 log truncated, unless may_lose; PS010, PS011.
create or replace function penstock.next_offset(
    topic_ids bigint[], start_offset jsonb, target jsonb default null, max_rows bigint default null,
    max_bytes bigint default null, min_rows bigint default null, may_lose boolean default false
) returns table (end_offset jsonb, row_count bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_point    jsonb;
    v_snapshot pg_snapshot;
    v_window   penstock_data.log_window;
    v_rows     bigint;
    v_last_id  bigint;
    v_all      boolean := true;
begin
    perform penstock_data.check_readable(topic_ids);
    perform penstock_data.check_offset(start_offset);
    v_point := coalesce(start_offset -> 'to', penstock_data.target_point(target));
    if not may_lose then
        perform penstock_data.check_kept(topic_ids, start_offset);
    end if;
    end_offset := start_offset;
    row_count := 0;
    if v_point is null then
        v_snapshot := penstock_data.snapshot_without_me(pg_current_snapshot());
        v_point := jsonb_build_object('snap', v_snapshot, 'last', penstock_data.last_message_id());
    elsif v_point ->> 'snap' = start_offset ->> 'snap' then
        return next;
        return;
    end if;
    v_window := penstock_data.window_between(start_offset, v_point);
    if max_rows is null and max_bytes is null then
        select count(*) into v_rows
        from penstock_data.log_ids(topic_ids, v_window, greatest(min_rows, 1));
    else
        select f.v_rows, f.v_last_id, f.v_all into v_rows, v_last_id, v_all
        from penstock_data.fitting(topic_ids, v_window, coalesce(max_rows, 9000000000000000000), max_bytes) f;
    end if;
    if v_rows < coalesce(min_rows, 1) and not start_offset ? 'to'
       -- A start in the past of which nothing is wanted is left for good, or each look would walk over all of it.
       and not (v_rows = 0 and start_offset ->> 'snap' = penstock_data.before_everything()::text
                and start_offset ?| '{since,floors}') then
        return next;
        return;
    end if;
    if v_snapshot is not null then
        v_point := penstock_data.bounded_point(v_snapshot, (v_point ->> 'last')::bigint, (start_offset ->> 'next')::bigint);
    end if;
    if v_all then
        end_offset := (start_offset - '{snap,next,last,to,id,emptied}'::text[]) || v_point;
    else
        end_offset := start_offset || jsonb_build_object('to', v_point, 'id', v_last_id);
    end if;
    row_count := case when max_rows is not null or max_bytes is not null then v_rows end;
    return next;
end
$$;
comment on function penstock.next_offset(bigint[], jsonb, jsonb, bigint, bigint, bigint, boolean) is 'Where the next batch of a stream ends.';
