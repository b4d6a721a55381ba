-- The offset where the next batch of a stream ends, and how many messages lie before it (null: not counted, some).  The
-- start itself, and 0, when there is nothing.  A batch never goes beyond a window, so limits are exact and a batch that
-- is read again holds the same messages.
-- A topic that the start does not stand for is read first: from where the stream had left it, else from the beginning
-- of the log, up to the start's point, in batches of its own.  A topic that is not read any more is left where it is.
-- target: an offset not to go beyond; else the end of the log.  min_rows: with fewer messages the start is returned,
-- unless a window is open or a topic catches up.  stream_name: the stream's name, if it has one.  A new offset may be
-- used when the transaction of this call has committed: then all that it stands on is on the disk.
-- Errors: PS001, PS009 topics; PS005, PS015 offset; PS016 log truncated, unless may_lose; PS010, PS011.
-- Roles: consumer, admin
create or replace function penstock.next_offset(
    topic_ids bigint[], start_offset jsonb, target jsonb default null, max_rows bigint default null,
    max_bytes bigint default null, min_rows bigint default null, may_lose boolean default false, stream_name text default null
) returns table (end_offset jsonb, row_count bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stream_id bigint := penstock_data.stream_id(stream_name);
    v_start     jsonb;
    v_point     jsonb;
    v_snapshot  pg_snapshot;
    v_window    penstock_data.log_window;
    v_topic_ids bigint[];
    v_limited   boolean := max_rows is not null or max_bytes is not null;
    v_rows      bigint;
    v_last_id   bigint;
    v_all       boolean := true;
begin
    perform penstock_data.check_readable(topic_ids);
    perform penstock_data.check_offset(start_offset, v_stream_id);
    end_offset := start_offset;
    row_count := 0;
    v_start := penstock_data.ready_to_go_on('topics', start_offset, topic_ids, v_stream_id, may_lose);
    if v_start ? 'catch_up' then
        v_topic_ids := array[(v_start #>> '{catch_up,of}')::bigint];
        v_window := penstock_data.catch_up_window(start_offset, v_start -> 'catch_up');
        select f.v_rows, f.v_last_id, f.v_all into v_rows, v_last_id, v_all
        from penstock_data.fitting(v_topic_ids, v_window, coalesce(max_rows, 9000000000000000000), max_bytes) f;
        end_offset := case when v_all then penstock_data.caught_up(v_start, 'topics')
            else jsonb_set(v_start, '{catch_up,id}', to_jsonb(v_last_id)) end;
        row_count := case when v_limited then v_rows end;
        return next;
        return;
    end if;

    v_topic_ids := penstock_data.listed_ids(v_start -> 'topics');
    perform penstock_data.check_readable(v_topic_ids);
    v_point := coalesce(penstock_data.window_end(v_start), penstock_data.target_point(target));
    if not may_lose then
        perform penstock_data.check_kept(v_topic_ids, v_start);
    end if;
    if v_point is null then
        v_snapshot := penstock_data.snapshot_without_me(pg_current_snapshot());
        v_point := jsonb_build_object('snap', v_snapshot, 'last', penstock_data.last_message_id());
    elsif v_point ->> 'snap' = v_start ->> 'snap' then
        return next;
        return;
    end if;
    v_window := penstock_data.window_between(v_start, v_point);
    if not v_limited then
        select count(*) into v_rows
        from penstock_data.log_ids(v_topic_ids, v_window, greatest(min_rows, 1));
    else
        select f.v_rows, f.v_last_id, f.v_all into v_rows, v_last_id, v_all
        from penstock_data.fitting(v_topic_ids, v_window, coalesce(max_rows, 9000000000000000000), max_bytes) f;
    end if;
    if v_rows < coalesce(min_rows, 1) and not v_start ? 'to'
       -- A start in the past of which nothing is wanted is left for good, or each look would walk over all of it.
       and not (v_rows = 0 and v_start ->> 'snap' = penstock_data.before_everything()::text
                and v_start ?| '{since,floors}') then
        return next;
        return;
    end if;
    if v_snapshot is not null then
        v_point := penstock_data.bounded_point(v_snapshot, (v_point ->> 'last')::bigint, (v_start ->> 'next')::bigint);
        v_point := penstock_data.stamped(v_point, v_stream_id);
    end if;
    end_offset := penstock_data.offset_behind(v_start, v_point, case when not v_all then jsonb_build_object('id', v_last_id) end);
    row_count := case when v_limited then v_rows end;
    return next;
end
$$;
comment on function penstock.next_offset(bigint[], jsonb, jsonb, bigint, bigint, bigint, boolean, text) is 'Where the next batch of a stream ends.';
