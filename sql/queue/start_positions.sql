-- Where a new queue or reader starts: 'end', 'beginning' or a timestamp.  Null for the first two.
create or replace function penstock_data.start_time(p_start_at text) returns timestamptz
language plpgsql stable as $$
begin
    if p_start_at in ('end', 'beginning') then
        return null;
    elsif isfinite(p_start_at::timestamptz) then
        return p_start_at::timestamptz;
    end if;
    raise datetime_field_overflow;
exception when others then
    perform penstock_data.fail('PS005', format('start_at must be ''end'', ''beginning'' or a timestamp, not %L', p_start_at));
    return null;
end
$$;

-- The first position of a queue.  Written when the queue is created, and by purge_queue at the end of the log.
create or replace function penstock_data.start_position(p_queue penstock_data.queues, p_at_end boolean)
returns penstock_data.positions
language plpgsql as $$
declare
    v_position penstock_data.positions;
begin
    v_position.queue_id := p_queue.id;
    v_position.seq := 1;
    v_position.window_to := case when p_at_end then penstock_data.snapshot_without_me(pg_current_snapshot())
                                 else penstock_data.before_everything() end;
    if not p_queue.direct then
        v_position.next_from_id := 0;
        if p_at_end then
            select b.p_snapshot, b.p_id into v_position.window_to, v_position.next_from_id
            from penstock_data.bound_window(v_position.window_to, null, 0) b;
        end if;
    end if;
    v_position.window_from := v_position.window_to;
    v_position.flagged_from := v_position.window_to;
    v_position.receipts_from := case when p_queue.ordering = 'fifo' then penstock_data.snapshot_without_me(pg_current_snapshot()) end;
    v_position.turn := case when p_queue.ordering = 'fair' then 0 end;
    v_position.floor := penstock_data.clock();
    v_position.full_scan_at := v_position.floor + interval '1 second';
    -- Flags tell of messages that some queue has not seen; a queue that begins earlier has to look for itself.
    v_position.attend_at := case when p_at_end then v_position.full_scan_at else v_position.floor end;
    return v_position;
end
$$;
