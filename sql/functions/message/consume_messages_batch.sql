-- Claim up to batch_size messages for vt_seconds: higher priority first, then due time or turn, then log order.
-- Returns the messages in claim order; none when the queue is empty or another claim holds the queue for too long.
-- Plain messages are read straight from the log, in one statement that also appends the position and the claim.
-- Locks: the queue's claim lock until the transaction ends, so claim in a short transaction of its own.
-- Errors: PS002 unknown queue, PS005 arguments, PS008 expired, PS009 not permitted, PS010 rebase needed, PS011 standby.
create or replace function penstock.consume_messages_batch(queue_name text, consumer_token text, vt_seconds int, batch_size int)
returns table (
    message_id bigint, payload jsonb, headers jsonb, key text, priority int, delivery_attempts int, vt timestamptz,
    published_at timestamptz, correlation_id text, tenant_id text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    v_queue    record;
    v_row      penstock_data.queues;
    v_seen     record;
    v_position penstock_data.positions;
    v_latest   penstock_data.positions;
    v_pick     penstock_data.pick;
    v_now      timestamptz;
    v_deadline timestamptz;
    v_started  timestamptz;
    v_snapshot pg_snapshot;
    v_left     int := batch_size;
    v_rows     int;
    v_dirty    boolean := false;
    v_awaited  boolean;
    v_fresh    boolean;
    v_late     xid8[];
    v_open     xid8[];
    v_low      xid8;
    v_low_id   bigint;
begin
    select * into v_queue from penstock_data.queue_named(queue_name);
    if v_queue.ready is not true then
        perform penstock_data.check_queue(queue_name);
    end if;
    if vt_seconds between 0 and 604800 and batch_size between 1 and 10000 and octet_length(consumer_token) between 1 and 1024 then
        null;
    else
        perform penstock_data.check_claim(consumer_token, vt_seconds, batch_size);
    end if;
    if not pg_try_advisory_xact_lock(1346719315, (v_queue.id & 2147483647)::int) then
        if not penstock_data.await_queue_lock(v_queue.id) then
            return;
        end if;
    end if;

    -- The position, and whether anything but plain messages wants attention.
    v_now := clock_timestamp() + v_queue.clock_shift;
    v_deadline := v_now + make_interval(secs => vt_seconds);
    select
        p as position, pg_current_snapshot() as snapshot, pg_is_in_recovery() as standby,
        v_now >= p.full_scan_at or p.flagged_to is not null
        or exists (
            select from penstock_data.claims c
            where c.queue_id = v_queue.id and c.deadline >= p.floor and c.deadline <= v_now)
        or exists (
            select from unnest(coalesce(p.levels, '{0}'), p.level_floors) as level(priority, floor)
            cross join lateral (
                select from penstock_data.scheduled s
                where s.queue_id = v_queue.id and s.priority = level.priority and s.rank is null
                  and s.visible_at >= coalesce(level.floor, p.floor) - interval '1 second' and s.visible_at <= v_now
                limit 1) s)
        or exists (
            select from penstock_data.messages m
            where m.segment > 0 and m.topic_id = v_queue.topic_id and m.flagged and m.xid >= pg_snapshot_xmax(p.flagged_from))
        or pg_snapshot_xmin(p.flagged_from) < pg_snapshot_xmax(p.flagged_from) and exists (
            select from penstock_data.messages m
            where m.segment > 0 and m.topic_id = v_queue.topic_id and m.flagged
              and m.xid = any (penstock_data.open_xids(p.flagged_from))) as care,
        exists (
            select from penstock_data.waiting w
            where w.topic_id = v_queue.topic_id and w.until > v_now and w.queue_id = v_queue.id) as awaited
    into v_seen
    from penstock_data.position_of(v_queue.id) p;
    if v_seen.standby is not false then
        perform penstock_data.check_queue(queue_name);      -- deleted while we waited for the lock
        perform penstock_data.fail('PS011', 'messages cannot be claimed on a standby');
    end if;
    v_position := v_seen.position;
    v_snapshot := v_seen.snapshot;
    v_awaited := v_seen.awaited;
    if pg_current_xact_id_if_assigned() is not null then
        v_snapshot := penstock_data.snapshot_without_me(v_snapshot);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        v_position := penstock_data.guard_position(v_position);
    end if;

    if v_seen.care or not v_queue.direct then
        v_started := clock_timestamp();
        select * into v_row from penstock_data.queues q where q.id = v_queue.id;
        if v_now >= v_position.full_scan_at then
            v_position.floor := '-infinity';
        end if;
        v_position := penstock_data.attend(v_row, v_position, v_snapshot, v_now, batch_size);
        -- Ahead of the log go the priorities that are not below it.
        v_pick := penstock_data.pick_scheduled(v_row, v_position,
            array(select l from unnest(coalesce(v_position.levels, '{0}')) l where l >= 0 or not v_queue.direct),
            consumer_token, v_deadline, v_now, v_left);
        v_position := v_pick.position;
        if v_pick.message_ids is not null then
            v_left := v_left - cardinality(v_pick.message_ids);
            return query select * from penstock_data.claimed_rows(v_queue.topic_id, v_pick.message_ids, v_pick.attempts, v_deadline);
        end if;
        v_dirty := v_position::text <> v_seen.position::text or v_pick.message_ids is not null;
        if v_position.floor = '-infinity' then
            v_position.full_scan_at := v_now + greatest(
                case when v_pick.message_ids is null then interval '10 seconds' else '1 second' end,
                (clock_timestamp() - v_started) * 100);
        end if;
    end if;
    v_position.floor := v_now;

    while v_queue.direct and v_left > 0 loop
        v_fresh := v_position.last_xid is null;
        if v_fresh then
            v_position.window_from := v_position.window_to;
            v_position.window_to := v_snapshot;
            v_position.last_xid := '0';
            v_position.last_id := 0;
        end if;
        v_low := v_position.last_xid;
        v_low_id := v_position.last_id;
        v_late := '{}';
        v_open := '{}';
        if v_low < pg_snapshot_xmax(v_position.window_from) then
            v_low := pg_snapshot_xmax(v_position.window_from);
            v_low_id := 0;
            if pg_snapshot_xmin(v_position.window_from) < v_low then
                v_late := penstock_data.late_xids(v_position.window_from, v_position.window_to);
            end if;
        end if;
        if pg_snapshot_xmin(v_position.window_to) < pg_snapshot_xmax(v_position.window_to) then
            v_open := penstock_data.open_xids(v_position.window_to);
        end if;

        return query
        with batch as materialized (
            select m.*, coalesce(least(m.expires_at, m.published_at + v_queue.retention) <= v_now, false) as lapsed
            from (
                (select m.*
                from unnest(v_late) as late(xid)
                cross join lateral (
                    select m.xid, m.id, m.payload, m.headers, m.key, m.published_at, m.correlation_id, m.tenant_id, m.expires_at
                    from penstock_data.messages m
                    where m.segment > 0 and m.topic_id = v_queue.topic_id and not m.flagged
                      and m.xid = late.xid and (late.xid, m.id) > (v_position.last_xid, v_position.last_id)
                    order by m.id limit v_left) m)
                union all
                (select m.xid, m.id, m.payload, m.headers, m.key, m.published_at, m.correlation_id, m.tenant_id, m.expires_at
                from penstock_data.messages m
                where m.segment > 0 and m.topic_id = v_queue.topic_id and not m.flagged
                  and (m.xid, m.id) > (v_low, v_low_id)
                  and m.xid < pg_snapshot_xmax(v_position.window_to) and m.xid <> all (v_open)
                order by m.xid, m.id limit v_left)
            ) m
            limit v_left
        ), total as materialized (
            select
                count(*) as count, min(b.id) filter (where not b.lapsed) as first_id,
                (array_agg(b.xid))[count(*)] as last_xid, (array_agg(b.id))[count(*)] as last_id,
                array_agg(b.id) filter (where not b.lapsed) as claimed, array_agg(b.id) filter (where b.lapsed) as lapsed
            from batch b
        ), position as (
            insert into penstock_data.positions (
                queue_id, seq, window_from, window_to, last_xid, last_id, flagged_from, flagged_to, flagged_xid, flagged_id,
                floor, full_scan_at, levels, level_floors)
            select
                v_queue.id, v_position.seq + 1,
                case when t.count = v_left then v_position.window_from else v_position.window_to end, v_position.window_to,
                case when t.count = v_left then t.last_xid end, case when t.count = v_left then t.last_id end,
                v_position.flagged_from, v_position.flagged_to, v_position.flagged_xid, v_position.flagged_id,
                v_position.floor, v_position.full_scan_at, v_position.levels, v_position.level_floors
            from total t
            where t.count > 0 or v_dirty
        ), claim as (
            insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids)
            select v_queue.id, t.first_id, v_deadline, v_now, consumer_token, t.claimed
            from total t where t.claimed is not null
        ), lapse as (
            insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids)
            select v_queue.id, v_now, v_queue.receipt_segment, 'lapsed', t.lapsed
            from total t where t.lapsed is not null
        )
        select b.id, b.payload, b.headers, b.key, 0, 1, v_deadline, b.published_at, b.correlation_id, b.tenant_id
        from batch b where not b.lapsed;
        get diagnostics v_rows = row_count;
        v_left := v_left - v_rows;
        if v_left = 0 then
            v_dirty := false;
            exit;
        end if;

        -- Fewer than asked for: the window is used up, or some of it lapsed.
        select p.* into v_latest from penstock_data.position_of(v_queue.id) p;
        if v_latest.seq > v_position.seq then
            v_position := v_latest;
            v_dirty := false;
        else
            v_dirty := v_dirty or not v_fresh;      -- or the log would be kept for a window that is used up
            v_position.last_xid := null;
            v_position.last_id := null;
        end if;
        exit when v_fresh and v_position.last_xid is null;
    end loop;

    -- Behind the log go the priorities below it.
    if v_queue.direct and v_left > 0 and v_row.id is not null
       and v_position.levels[cardinality(v_position.levels)] < 0 then
        v_pick := penstock_data.pick_scheduled(v_row, v_position,
            array(select l from unnest(v_position.levels) l where l < 0), consumer_token, v_deadline, v_now, v_left);
        v_position := v_pick.position;
        v_dirty := v_dirty or v_pick.message_ids is not null;
        if v_pick.message_ids is not null then
            return query select * from penstock_data.claimed_rows(v_queue.topic_id, v_pick.message_ids, v_pick.attempts, v_deadline);
        end if;
    end if;
    if v_dirty then
        perform penstock_data.append_position(v_position);
    end if;
    -- There was something, so nobody needs to be woken until somebody looks in vain again.
    if v_awaited and v_left < batch_size then
        delete from penstock_data.waiting w where w.topic_id = v_queue.topic_id and w.until > v_now and w.queue_id = v_queue.id;
    end if;
end
$$;
comment on function penstock.consume_messages_batch(text, text, int, int) is
    'Claim up to batch_size messages of a queue for vt_seconds.';
