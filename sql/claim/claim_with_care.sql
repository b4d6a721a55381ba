-- Claims that do all that the fast path leaves alone: the steps, then claim_with_care.  docs/internals/engine.md,
-- "Care"

-- What a claim sees of its queue.  Plain SQL, stable and without settings of its own, so that the planner puts it into
-- the calling statement.  p_clock: clock_timestamp(), which may not stand in here.
create or replace function penstock_data.seen_with_care(
    p_queue_name text, p_token text, p_seconds int, p_slice boolean, p_clock timestamptz
) returns setof penstock_data.care
language sql stable as $$
    select
        q, p, pg_current_snapshot(), p_clock, t.now,
        case when p_slice then '-infinity' else t.now + p_seconds * interval '1 second' end,
        exists (
            select from penstock_data.waiting w
            where w.topic_id = q.topic_id and w.until > t.now and w.queue_id = q.id and coalesce(w.token = p_token, true)),
        t.now >= p.full_scan_at or t.now < p.floor,
        t.now >= p.full_scan_at or t.now < p.floor or t.now >= p.attend_at or not q.direct or p.flagged_to is not null
        or (
            select true from penstock_data.scheduled d
            where d.queue_id = q.id and d.xid >= pg_snapshot_xmax(p.flagged_from)
            order by d.xid limit 1) is true
        or exists (
            select from penstock_data.flags f
            where f.topic_id = q.topic_id and f.xid >= pg_snapshot_xmax(p.flagged_from))
    from penstock_data.queues q
    cross join penstock_data.settings s
    cross join lateral (select p_clock + s.clock_shift as now) t
    cross join lateral penstock_data.position_of(q.id) p
    where q.name = p_queue_name and s.single
$$;

-- Look at the queue of a claim, and raise the error of a claim that may not be: of the queue, the caller's rights, the
-- server or the arguments.  needed says whether anything but plain messages wants attention.
create or replace function penstock_data.begin_care(
    p_queue_name text, p_token text, p_seconds int, p_batch_size int, p_slice boolean
) returns penstock_data.care
language plpgsql as $$
declare
    v_clock    timestamptz := clock_timestamp();
    v_care     penstock_data.care;
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
begin
    select * into v_care from penstock_data.seen_with_care(p_queue_name, p_token, p_seconds, p_slice, v_clock);
    v_queue := v_care.queue;
    if (v_queue.consumers is null and not v_queue.exclusive and v_queue.paused_at is null) is not true then
        perform penstock_data.check_queue(p_queue_name);
        if v_queue.id is null then
            perform penstock_data.fail('PS002', format('queue %L was deleted and created again at this moment', p_queue_name));
        end if;
    end if;
    if current_setting('penstock.at_home', true) is distinct from 'yes' then
        perform penstock_data.check_at_home();
    end if;
    if not p_slice and (p_seconds between 0 and 604800 and p_batch_size between 1 and 10000 and octet_length(p_token) between 1 and 1024) is not true then
        perform penstock_data.check_claim(p_token, p_seconds, p_batch_size);
    end if;
    if pg_current_xact_id_if_assigned() is not null then
        v_care.snapshot := penstock_data.snapshot_without_me(v_care.snapshot);
    end if;
    v_position := v_care.position;
    if not v_care.needed and pg_snapshot_xmin(v_position.flagged_from) < pg_snapshot_xmax(v_position.flagged_from) then
        v_care.needed := penstock_data.flagged_late(v_queue.topic_id, v_position.flagged_from)
            or penstock_data.given_back_late(v_queue.id, v_position.flagged_from);
    end if;
    if v_care.now < v_position.floor then
        -- The clock was put back: what it said before is no floor.
        v_position.floor := '-infinity';
        v_position.level_floors := null;
        v_position.level_floor_ids := null;
        v_care.position := v_position;
    end if;
    return v_care;
end
$$;

-- Claim messages of a queue, whatever they need.  Called under the queue's claim lock, with arguments of
-- consume_messages_batch; p_last_id as in bound_window.
-- p_slice: what it claims becomes a slice, so it has no token and no deadline.
create or replace function penstock_data.claim_with_care(
    queue_name text, consumer_token text, vt_seconds int, batch_size int, p_last_id bigint, p_slice boolean default false
) returns setof penstock_data.claimed_message
language plpgsql set plan_cache_mode = force_generic_plan
as $$
declare
    v_care     penstock_data.care := penstock_data.begin_care(queue_name, consumer_token, vt_seconds, batch_size, p_slice);
    v_queue    penstock_data.queues := v_care.queue;
    v_position penstock_data.positions := v_care.position;
    v_now      timestamptz := v_care.now;
    v_pick     penstock_data.pick;
    v_dirty    boolean := false;            -- the position changed and is not written yet
    v_opened   boolean := false;            -- the window of the log was opened here
    v_blocked  boolean := false;            -- other transactions have locked what comes next
    v_left     int := batch_size;
    v_count    int;
begin
    if v_queue.paused_at is not null then
        return;
    end if;
    if v_care.needed or v_position.ahead then
        v_position.ahead := penstock_data.has_notes(v_queue.id);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        v_position := penstock_data.guard_position(v_position);
    end if;

    if v_care.needed then
        if v_care.full then
            v_position.full_scan_at := v_now;       -- attend and pick_scheduled say if it is due again
        end if;
        v_position := penstock_data.attend(v_queue, v_position, v_care.snapshot, v_now, batch_size, v_care.full, p_last_id);
        if not v_queue.direct and v_position.slices_from is not null and not p_slice then
            return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, v_left);
            get diagnostics v_count = row_count;
            v_left := v_left - v_count;
        end if;
        -- Ahead of the log go the priorities that are not below it.
        v_pick := penstock_data.pick_scheduled(v_queue, v_position,
            array(select l from unnest(coalesce(v_position.levels, '{0}')) l where l >= 0 or not v_queue.direct),
            consumer_token, v_care.deadline, v_now, v_left);
        v_blocked := (v_pick.position).full_scan_at = '-infinity';      -- there are rows that others have locked
        if v_pick.message_ids is not null then
            v_left := v_left - cardinality(v_pick.message_ids);
            return query select * from penstock_data.claimed_rows(v_queue.topic_id, v_pick.message_ids, v_pick.attempts, v_care.deadline);
        end if;
        v_position := penstock_data.plan_attention(v_pick.position, v_now, v_care.started_at, v_queue.direct, v_left < batch_size, v_care.full);
        if v_blocked then
            v_position := penstock_data.look_again(v_position, v_now);
        end if;
        v_dirty := v_position::text <> v_care.position::text;
    end if;
    v_position.floor := v_now;
    if not p_slice then
        v_position.attend_at := least(v_position.attend_at, v_care.deadline);
    end if;

    if v_position.slices_from is not null then
        -- They were taken out of the log earlier, so they go ahead of it.
        if v_queue.direct and not p_slice then
            return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, v_left);
            get diagnostics v_count = row_count;
            v_left := v_left - v_count;
        end if;
        v_position := penstock_data.with_slices(v_position, v_now);
        v_dirty := true;
    end if;

    while v_queue.direct and v_left > 0 loop
        if v_position.last_xid is null then
            exit when v_opened;
            v_opened := true;
            v_position.window_from := v_position.window_to;
            v_position.window_to := v_care.snapshot;
            v_position.last_xid := case when pg_snapshot_xmin(v_position.window_from) < pg_snapshot_xmax(v_position.window_from)
                then '0' else pg_snapshot_xmax(v_position.window_from) end;
            v_position.last_id := 0;
        end if;
        if v_position.last_xid < pg_snapshot_xmax(v_position.window_from) then
            v_pick := penstock_data.pick_late(v_queue, v_position, consumer_token, v_care.deadline, v_now, v_left);
        else
            v_pick := penstock_data.pick_range(v_queue, v_position, consumer_token, v_care.deadline, v_now, v_left);
        end if;
        -- The next message was claimed ahead by a transaction that is still open.
        v_blocked := (v_pick.position).last_xid = v_position.last_xid and (v_pick.position).last_id = v_position.last_id;
        exit when v_blocked;
        if v_pick.attempts is not null then
            return query select * from penstock_data.claimed_rows(v_queue.topic_id, v_pick.message_ids, v_pick.attempts, v_care.deadline);
        elsif v_pick.message_ids is not null then
            return query select * from penstock_data.range_rows(v_queue.topic_id, v_position.last_xid, v_position.last_id,
                v_position.window_to, cardinality(v_pick.message_ids), v_care.deadline);
        end if;
        v_position := v_pick.position;
        v_left := v_left - coalesce(cardinality(v_pick.message_ids), 0);
        -- A window that was open must be closed in writing, or the log would be kept for it.
        v_dirty := v_dirty or v_pick.message_ids is not null or not v_opened;
    end loop;

    -- Behind the log go the priorities below it.
    if v_care.needed and v_queue.direct and v_left > 0 and v_position.levels[cardinality(v_position.levels)] < 0 then
        v_pick := penstock_data.pick_scheduled(v_queue, v_position,
            array(select l from unnest(v_position.levels) l where l < 0), consumer_token, v_care.deadline, v_now, v_left);
        v_position := v_pick.position;
        if v_position.full_scan_at = '-infinity' then
            v_position := penstock_data.look_again(v_position, v_now);
        end if;
        if v_pick.message_ids is not null then
            v_left := v_left - cardinality(v_pick.message_ids);
            v_dirty := true;
            return query select * from penstock_data.claimed_rows(v_queue.topic_id, v_pick.message_ids, v_pick.attempts, v_care.deadline);
        end if;
    end if;
    if v_position.ahead then
        v_position := penstock_data.with_notes(v_queue, v_position);
        v_dirty := true;
    end if;
    if v_dirty then
        v_position.seq := v_position.seq + 1;
        insert into penstock_data.positions values (v_position.*);
    end if;
    if not v_queue.direct and not v_queue.runs and v_left = batch_size then
        v_blocked := v_blocked or penstock_data.has_unread(v_queue.id);
    end if;
    if v_blocked and not p_slice and v_left > 0 and current_setting('transaction_isolation') = 'read committed' then
        return query select * from penstock_data.claim_ahead(queue_name, consumer_token, vt_seconds, v_left, v_left < batch_size);
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
    end if;
    -- All that waits is in slices that are locked.
    if v_left = batch_size and not p_slice and v_position.slices_from is not null then
        perform penstock_data.tell_busy(queue_name);
    end if;
    if v_left < batch_size and v_care.awaited then
        perform penstock_data.end_waiting(v_queue.topic_id, v_queue.id, consumer_token, v_now);
    end if;
end
$$;
