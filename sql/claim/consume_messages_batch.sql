-- Claim up to batch_size messages for vt_seconds: higher priority first, then due time or turn, then log order.
-- Returns the messages in claim order; none when the queue is empty, or when other claims hold the queue, or all that
-- it has, for longer than settings.lock_wait: then a notice with the code PS018 says so.  Plain messages of a direct
-- queue that needs no care take the fast path; claim_with_care does the rest.  Claims that come at the same time take
-- from slices (claim/slices.sql).
-- Locks: the queue's claim lock or a slice, until the transaction ends.  Others claim ahead of it meanwhile
-- (claim/ahead.sql).
-- Errors: PS002 unknown queue, PS005 arguments, PS008 expired, PS009 not permitted, PS010 rebase needed, PS011 standby.
-- Roles: consumer, admin
create or replace function penstock.consume_messages_batch(queue_name text, consumer_token text, vt_seconds int, batch_size int)
returns table (
    message_id bigint, payload jsonb, headers jsonb, key text, priority int, delivery_attempts int, vt timestamptz,
    published_at timestamptz, correlation_id text, tenant_id text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue    penstock_data.locked_queue;
    v_position record;
    v_turn     text;
    v_read     record;
    v_alone    boolean;                 -- no claim goes ahead of the position
    v_waited   boolean := false;
    v_count    int;
    v_beside   boolean := false;        -- the last claim of this session came beside others
    v_share    boolean := false;        -- and this one does too
begin
    loop
        -- Few and large expressions: PL/pgSQL prepares each of them anew in every transaction.
        if (current_setting('penstock.at_home', true) = 'yes' and current_setting('transaction_isolation') = 'read committed'
            and vt_seconds between 0 and 604800 and batch_size between 1 and 10000 and octet_length(consumer_token) between 1 and 1024
           ) is true then
            -- The last claim of this session came beside others, so this one looks for slices first.
            if current_setting('penstock.beside', true) = queue_name and not v_waited then
                v_beside := true;
                return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, batch_size, true);
                get diagnostics v_count = row_count;
                if v_count = batch_size then
                    return;
                elsif v_count > 0 then
                    -- The slice ended.  The rest comes from another, or from a new one if the claim lock is free.
                    return query select * from penstock_data.claim_rest(queue_name, consumer_token, vt_seconds, batch_size - v_count);
                    return;
                end if;
                perform set_config('penstock.beside', '', false);
            end if;
            -- Take the claim lock; the next statement has a newer snapshot and reads what the last claim wrote.
            -- Queues that read by ids want the last id as it was before the lock assigns an xid (bound_window):
            -- PostgreSQL computes the columns of a row before it locks the row (tests/plans/test_claim_lock.py).
            select q.id, q.topic_id, q.retention, q.direct and q.consumers is null and not q.exclusive and q.paused_at is null,
                clock_timestamp(),
                case when q.direct then null when v_waited then v_queue.last_id
                    when pg_current_xact_id_if_assigned() is null then penstock_data.last_message_id() end
            into v_queue
            from penstock_data.queues q join penstock_data.claim_locks l on l.queue_id = q.id
            where q.name = queue_name
            for no key update of l skip locked;
            if v_queue.direct and not (v_waited and v_beside) then
                select * into v_position from penstock_data.fast_path(
                    v_queue.id, v_queue.topic_id, consumer_token, v_queue.clock, vt_seconds);
                if v_position.plain and v_position.alone then
                    select count(*)::int as count, min(m.id) as first_id, array_agg(m.id) as ids, array_agg(m.xid) as xids,
                        bool_or(m.lapsed) as lapsed
                    into v_read
                    from (
                        select m.xid, m.id, least(m.expires_at, m.published_at + v_queue.retention) <= v_position.now as lapsed
                        from penstock_data.messages m
                        where m.segment >= v_position.first_segment and m.segment <= v_position.last_segment
                          and m.topic_id = v_queue.topic_id and not m.flagged
                          and (m.xid, m.id) > (v_position.last_xid, v_position.last_id)
                          and m.xid < pg_snapshot_xmax(v_position.window_to) and pg_visible_in_snapshot(m.xid, v_position.window_to)
                        order by m.xid, m.id limit batch_size) m;
                    -- A window that was begun earlier and does not fill the batch is left to claim_with_care, and so is
                    -- what lapsed, and what claims ahead may have taken.
                    if v_read.count > 0 and v_read.lapsed is not true and (v_position.current or v_read.count = batch_size) then
                        if v_read.count > 256 or not v_position.current then
                            v_alone := penstock_data.mark_messages(v_queue.id, v_read.ids, case when not v_position.current then v_read.xids end);
                        else
                            select true into v_alone from penstock_data.message_locks l
                            where l.slot = penstock_data.mark_slot(v_queue.id, v_read.ids[v_read.count])
                            for update skip locked;
                        end if;
                        if v_alone then
                            insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids)
                            select v_queue.id, v_read.first_id, v_position.deadline, v_position.now, consumer_token, v_read.ids
                            from penstock_data.message_locks l
                            where l.slot = penstock_data.presence_slot(v_queue.id) and l.xmax = '0';
                            v_alone := found;
                        end if;
                        if v_alone then
                            insert into penstock_data.positions (
                                queue_id, seq, window_from, window_to, last_xid, last_id, flagged_from, floor, full_scan_at, attend_at)
                            values (
                                v_queue.id, v_position.seq + 1,
                                case when v_read.count < batch_size then v_position.window_to else v_position.window_from end, v_position.window_to,
                                case when v_read.count = batch_size then v_read.xids[batch_size] end,
                                case when v_read.count = batch_size then v_read.ids[batch_size] end,
                                v_position.flagged_from, v_position.now, v_position.full_scan_at, least(v_position.attend_at, v_position.deadline));
                            return query
                            select m.id, m.payload, m.headers, m.key, 0, 1, v_position.deadline, m.published_at, m.correlation_id, m.tenant_id
                            from penstock_data.messages m
                            where m.segment >= v_position.first_segment and m.segment <= v_position.last_segment
                              and m.topic_id = v_queue.topic_id and not m.flagged
                              and (m.xid, m.id) > (v_position.last_xid, v_position.last_id)
                              and m.xid < pg_snapshot_xmax(v_position.window_to) and pg_visible_in_snapshot(m.xid, v_position.window_to)
                            order by m.xid, m.id limit v_read.count;
                            if v_position.awaited then
                                perform penstock_data.end_waiting(v_queue.topic_id, v_queue.id, consumer_token, v_position.now);
                            end if;
                            return;
                        end if;
                    end if;
                end if;
                v_share := v_position.plain and not v_position.alone;
            elsif v_queue.id is null and not v_waited then
                -- Another claim has the lock.
                return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, batch_size);
                if found then
                    perform set_config('penstock.beside', queue_name, false);
                    return;
                end if;
            end if;
            v_share := v_share or v_beside and (v_waited or not v_queue.direct) and v_queue.id is not null;
        end if;
        if v_queue.id is null and not v_waited and coalesce(current_setting('penstock.at_home', true), '') = '' then
            -- The first call of a session looks once whether the log is of this server.  Then it is a claim like any
            -- other.
            perform penstock_data.check_at_home();
            continue;
        end if;
        exit when v_queue.id is not null or v_waited;
        -- Nor is there a slice that is free.  Wait for the lock.
        v_queue.last_id := case when pg_current_xact_id_if_assigned() is null then penstock_data.last_message_id() end;
        v_turn := penstock_data.await_claim_turn(queue_name);
        if v_turn is null then
            perform penstock_data.tell_busy(queue_name);
            return;
        elsif v_turn = 'ahead' then
            return query select * from penstock_data.claim_ahead(queue_name, consumer_token, vt_seconds, batch_size);
            return;
        end if;
        perform set_config('penstock.beside', queue_name, false);
        if v_turn = 'beside' then
            return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, batch_size, true);
            if found then
                return;
            end if;
        end if;
        v_waited := v_turn = 'locked';
    end loop;
    if v_share then
        return query select * from penstock_data.claim_and_share(queue_name, consumer_token, vt_seconds, batch_size, v_queue.last_id, v_waited);
        return;
    end if;
    return query select * from penstock_data.claim_with_care(queue_name, consumer_token, vt_seconds, batch_size, v_queue.last_id);
end
$$;
comment on function penstock.consume_messages_batch(text, text, int, int) is
    'Claim up to batch_size messages of a queue for vt_seconds.';
