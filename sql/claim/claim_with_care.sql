-- Claim messages of a queue, whatever they need: everything that the fast path leaves alone.
-- Called under the queue's claim lock, with arguments of consume_messages_batch; p_last_id as in bound_window.
-- p_slice: what it claims becomes a slice, so it has no token and no deadline.
create or replace function penstock_data.claim_with_care(
    queue_name text, consumer_token text, vt_seconds int, batch_size int, p_last_id bigint, p_slice boolean default false
) returns setof penstock_data.claimed_message
language plpgsql set plan_cache_mode = force_generic_plan
as $$
declare
    v_clock    timestamptz;
    v_now      timestamptz;
    v_deadline timestamptz;
    v_seen     record;
    v_queue    penstock_data.queues;        -- filled when something needs care
    v_position penstock_data.positions;
    v_pick     penstock_data.pick;
    v_snapshot pg_snapshot;
    v_care     boolean;
    v_full     boolean;                     -- look below the floor as well
    v_dirty    boolean := false;            -- the position changed and is not written yet
    v_fresh    boolean;
    v_left     int := batch_size;
    v_count    int;
    v_low      xid8;
    v_low_id   bigint;
    v_batch    record;
begin
    -- The queue, its position, and whether anything but plain messages wants attention.
    v_clock := clock_timestamp();
    select
        q.id, q.topic_id, q.direct, q.retention, q.consumers is null and not q.exclusive and q.paused_at is null as open, q.paused_at is not null as paused, s.clock_shift, s.receipt_segment,
        p as position, pg_current_snapshot() as snapshot,
        (
            select true from penstock_data.scheduled d
            where d.queue_id = q.id and d.xid >= pg_snapshot_xmax(p.flagged_from)
            order by d.xid limit 1) is true as given_back,
        exists (
            select from penstock_data.flags f
            where f.topic_id = q.topic_id and f.xid >= pg_snapshot_xmax(p.flagged_from)) as flagged,
        exists (
            select from penstock_data.waiting w
            where w.topic_id = q.topic_id and w.until > v_clock + s.clock_shift and w.queue_id = q.id
              and coalesce(w.token = consumer_token, true)) as awaited
    into v_seen
    from penstock_data.queues q
    cross join penstock_data.settings s
    cross join lateral penstock_data.position_of(q.id) p
    where q.name = queue_name and s.single;
    if v_seen.open is not true then
        perform penstock_data.check_queue(queue_name);
        if v_seen.id is null then
            perform penstock_data.fail('PS002', format('queue %L was deleted and created again at this moment', queue_name));
        end if;
    end if;
    if current_setting('penstock.at_home', true) is distinct from 'yes' then
        perform penstock_data.check_at_home();
    end if;
    if not p_slice and (vt_seconds between 0 and 604800 and batch_size between 1 and 10000 and octet_length(consumer_token) between 1 and 1024) is not true then
        perform penstock_data.check_claim(consumer_token, vt_seconds, batch_size);
    end if;
    if v_seen.paused then
        return;
    end if;
    v_now := v_clock + v_seen.clock_shift;
    v_deadline := case when p_slice then '-infinity' else v_now + vt_seconds * interval '1 second' end;
    v_position := v_seen.position;
    v_snapshot := v_seen.snapshot;
    if pg_current_xact_id_if_assigned() is not null then
        v_snapshot := penstock_data.snapshot_without_me(v_snapshot);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        v_position := penstock_data.guard_position(v_position);
    end if;

    v_full := v_now >= v_position.full_scan_at;
    if v_now < v_position.floor then
        -- The clock was put back: what it said before is no floor.
        v_full := true;
        v_position.floor := '-infinity';
        v_position.level_floors := null;
        v_position.level_floor_ids := null;
    end if;
    v_care := v_full or not v_seen.direct or v_seen.given_back or v_seen.flagged or v_now >= v_position.attend_at
        or v_position.flagged_to is not null;
    if not v_care and pg_snapshot_xmin(v_position.flagged_from) < pg_snapshot_xmax(v_position.flagged_from) then
        v_care := penstock_data.flagged_late(v_seen.topic_id, v_position.flagged_from)
            or penstock_data.given_back_late(v_seen.id, v_position.flagged_from);
    end if;
    if v_care then
        select * into v_queue from penstock_data.queues q where q.name = queue_name;
        v_position := penstock_data.attend(v_queue, v_position, v_snapshot, v_now, batch_size, v_full, p_last_id);
        if not v_seen.direct and v_position.slices_from is not null and not p_slice then
            return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, v_left);
            get diagnostics v_count = row_count;
            v_left := v_left - v_count;
        end if;
        -- Ahead of the log go the priorities that are not below it.
        v_pick := penstock_data.pick_scheduled(v_queue, v_position,
            array(select l from unnest(coalesce(v_position.levels, '{0}')) l where l >= 0 or not v_seen.direct),
            consumer_token, v_deadline, v_now, v_left);
        v_position := v_pick.position;
        if v_pick.message_ids is not null then
            v_left := v_left - cardinality(v_pick.message_ids);
            return query select * from penstock_data.claimed_rows(v_seen.topic_id, v_pick.message_ids, v_pick.attempts, v_deadline);
        end if;
        v_position := penstock_data.plan_attention(v_position, v_now, v_clock, v_seen.direct, v_left < batch_size, v_full);
        v_dirty := v_position::text <> v_seen.position::text;
    end if;
    v_position.floor := v_now;
    if not p_slice then
        v_position.attend_at := least(v_position.attend_at, v_deadline);
    end if;
    if v_position.slices_from is not null then
        -- They were taken out of the log earlier, so they go ahead of it.
        if v_seen.direct and not p_slice then
            return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, v_left);
            get diagnostics v_count = row_count;
            v_left := v_left - v_count;
        end if;
        v_position := penstock_data.with_slices(v_position, v_now);
        v_dirty := true;
    end if;

    while v_seen.direct and v_left > 0 loop
        v_fresh := v_position.last_xid is null;
        if v_fresh then
            v_position.window_from := v_position.window_to;
            v_position.window_to := v_snapshot;
            v_position.last_xid := '0';
            v_position.last_id := 0;
        end if;
        if pg_snapshot_xmin(v_position.window_from) = pg_snapshot_xmax(v_position.window_from) and v_fresh then
            v_position.last_xid := pg_snapshot_xmax(v_position.window_from);
        end if;
        while v_position.last_xid < pg_snapshot_xmax(v_position.window_from) and v_left > 0 loop
            v_pick := penstock_data.pick_late(v_seen.topic_id, v_seen.retention, v_position, consumer_token, v_deadline, v_now, v_left);
            v_position := v_pick.position;
            if v_pick.message_ids is not null then
                v_left := v_left - cardinality(v_pick.message_ids);
                v_dirty := true;
                return query select * from penstock_data.claimed_rows(v_seen.topic_id, v_pick.message_ids, v_pick.attempts, v_deadline);
            end if;
        end loop;
        exit when v_left = 0;
        v_low := v_position.last_xid;
        v_low_id := v_position.last_id;

        select count(*)::int as count, array_agg(m.id) as ids, (array_agg(m.xid))[count(*)] as last_xid, bool_or(m.lapsed) as lapsed
        into v_batch
        from (
            select m.xid, m.id, least(m.expires_at, m.published_at + v_seen.retention) <= v_now as lapsed
            from penstock_data.messages m
            where m.segment > 0 and m.topic_id = v_seen.topic_id and not m.flagged
              and (m.xid, m.id) > (v_low, v_low_id)
              and m.xid < pg_snapshot_xmax(v_position.window_to) and pg_visible_in_snapshot(m.xid, v_position.window_to)
            order by m.xid, m.id limit v_left
        ) m;
        if v_batch.count = v_left then
            v_position.last_xid := v_batch.last_xid;
            v_position.last_id := v_batch.ids[v_left];
        else
            v_position.last_xid := null;        -- the window is used up
            v_position.last_id := null;
            v_position.window_from := v_position.window_to;
        end if;
        -- A window that was open must be closed in writing, or the log would be kept for it.
        v_dirty := v_dirty or v_batch.count > 0 or not v_fresh;

        if v_batch.lapsed then
            v_pick.message_ids := penstock_data.drop_lapsed(v_seen.id, v_seen.topic_id, v_seen.retention, v_batch.ids, v_now);
            if v_pick.message_ids <> '{}' then
                perform penstock_data.claim_messages(v_seen.id, v_pick.message_ids, consumer_token, v_deadline, v_now);
                v_left := v_left - cardinality(v_pick.message_ids);
                return query select * from penstock_data.claimed_rows(
                    v_seen.topic_id, v_pick.message_ids, array_fill(1, array[cardinality(v_pick.message_ids)]), v_deadline);
            end if;
        elsif v_batch.count > 0 then
            v_left := v_left - v_batch.count;
            insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids)
            values (v_seen.id, (select min(id) from unnest(v_batch.ids) id), v_deadline, v_now, consumer_token, v_batch.ids);
            return query
            select m.id, m.payload, m.headers, m.key, 0, 1, v_deadline, m.published_at, m.correlation_id, m.tenant_id
            from penstock_data.messages m
            where m.segment > 0 and m.topic_id = v_seen.topic_id and not m.flagged
              and (m.xid, m.id) > (v_low, v_low_id)
              and m.xid < pg_snapshot_xmax(v_position.window_to) and pg_visible_in_snapshot(m.xid, v_position.window_to)
            order by m.xid, m.id limit v_batch.count;
        end if;
        exit when v_fresh and v_position.last_xid is null;
    end loop;

    -- Behind the log go the priorities below it.
    if v_care and v_seen.direct and v_left > 0 and v_position.levels[cardinality(v_position.levels)] < 0 then
        v_pick := penstock_data.pick_scheduled(v_queue, v_position,
            array(select l from unnest(v_position.levels) l where l < 0), consumer_token, v_deadline, v_now, v_left);
        v_position := v_pick.position;
        if v_pick.message_ids is not null then
            v_left := v_left - cardinality(v_pick.message_ids);
            v_dirty := true;
            return query select * from penstock_data.claimed_rows(v_seen.topic_id, v_pick.message_ids, v_pick.attempts, v_deadline);
        end if;
    end if;
    if v_dirty then
        v_position.seq := v_position.seq + 1;
        insert into penstock_data.positions values (v_position.*);
    end if;
    -- All that waits is in slices that are locked.
    if v_left = batch_size and not p_slice and v_position.slices_from is not null then
        perform penstock_data.tell_busy(queue_name);
    end if;
    -- There was something, so this consumer needs no waking until it looks in vain again.
    if v_left < batch_size and v_seen.awaited then
        delete from penstock_data.waiting w
        where w.topic_id = v_seen.topic_id and w.until > v_now and w.queue_id = v_seen.id and coalesce(w.token = consumer_token, true);
    end if;
end
$$;
