-- Claim the next message.  As consume_messages_batch with a batch of one, in statements made for one message: what a
-- single claim costs is the starting of its statements.
-- Locks and errors: those of consume_messages_batch.
-- Roles: consumer, admin
create or replace function penstock.consume_message(queue_name text, consumer_token text, vt_seconds int default 30)
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
    v_slice    record;
    v_turn     text;
    v_waited   boolean := false;
    v_beside   boolean := false;        -- the last claim of this session came beside others
    v_share    boolean := false;        -- and this one does too
    v_xid      xid8;
    v_alive    boolean;
begin
    loop
        if (current_setting('penstock.at_home', true) = 'yes' and current_setting('transaction_isolation') = 'read committed'
            and vt_seconds between 0 and 604800 and octet_length(consumer_token) between 1 and 1024
           ) is true then
            -- The last claim of this session came beside others, so this one looks for slices first.
            if current_setting('penstock.beside', true) = queue_name and not v_waited then
                v_beside := true;
                -- The slice that this session used last.  claim_beside does the same for many messages and for all that
                -- is left here.
                select q.id, q.topic_id, q.retention, s.first_segment, s.last_segment, clock_timestamp() + s.clock_shift as now,
                    clock_timestamp() + s.clock_shift + vt_seconds * interval '1 second' as deadline,
                    c.place, c.message_ids[1] as message_id, c.attempts[1] as attempt, c.lanes[1] as lane, c.histories
                into v_slice
                from penstock_data.queues q cross join penstock_data.settings s
                cross join lateral (
                    select c.ctid as place, c.* from penstock_data.claims c
                    where c.queue_id = q.id and c.token = '' and c.first_id = nullif(current_setting('penstock.slice', true), '')::bigint
                      and cardinality(c.message_ids) > 1
                    limit 1 for update skip locked) c
                where q.name = queue_name and q.consumers is null and not q.exclusive and q.paused_at is null and s.single;
                if v_slice.id is not null then
                    select m.id, m.payload, m.headers, m.key, m.priority, coalesce(v_slice.attempt, 1), v_slice.deadline, m.published_at,
                        m.correlation_id, m.tenant_id, (least(m.expires_at, m.published_at + v_slice.retention) <= v_slice.now) is not true
                    into message_id, payload, headers, key, priority, delivery_attempts, vt, published_at, correlation_id, tenant_id, v_alive
                    from penstock_data.messages m
                    where m.segment >= v_slice.first_segment and m.segment <= v_slice.last_segment
                      and m.topic_id = v_slice.topic_id and m.id = v_slice.message_id
                    limit 1;
                    if v_alive then
                        update penstock_data.claims c
                        set claimed_at = v_slice.now, message_ids = c.message_ids[2:], attempts = c.attempts[2:], lanes = c.lanes[2:]
                        where c.ctid = v_slice.place;
                        insert into penstock_data.claims (
                            queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
                        values (
                            v_slice.id, v_slice.message_id, v_slice.deadline, v_slice.now, consumer_token, array[v_slice.message_id],
                            case when v_slice.attempt is not null then array[v_slice.attempt] end,
                            case when v_slice.lane is not null then array[v_slice.lane] end, v_slice.histories);
                        return next;
                        return;
                    end if;
                end if;
                return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, 1, true);
                if found then
                    return;
                end if;
                perform set_config('penstock.beside', '', false);
            end if;
            -- Take the claim lock; the next statement has a newer snapshot and reads what the last claim wrote.
            -- Queues that read by ids want the last id as it was before the lock assigns an xid (bound_window):
            -- PostgreSQL computes the columns of a row before it locks the row (tests/plans/test_claim_lock.py).
            -- consume_messages_batch has the same statement: the planner puts no function that locks rows into a
            -- statement, and a call of its own would cost more than the lock.
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
                    select m.id, m.payload, m.headers, m.key, 0, 1, v_position.deadline, m.published_at, m.correlation_id, m.tenant_id,
                        m.xid, (least(m.expires_at, m.published_at + v_queue.retention) <= v_position.now) is not true
                    into message_id, payload, headers, key, priority, delivery_attempts, vt, published_at, correlation_id, tenant_id,
                        v_xid, v_alive
                    from penstock_data.messages m
                    where m.segment >= v_position.first_segment and m.segment <= v_position.last_segment
                      and m.topic_id = v_queue.topic_id and not m.flagged
                      and (m.xid, m.id) > (v_position.last_xid, v_position.last_id)
                      and m.xid < pg_snapshot_xmax(v_position.window_to) and pg_visible_in_snapshot(m.xid, v_position.window_to)
                    order by m.xid, m.id limit 1;
                    if v_alive then
                        -- A claim ahead may have it; or had it, and has committed since.
                        select true into v_alive
                        from penstock_data.message_locks l
                        where l.slot = penstock_data.message_slot(v_queue.id, consume_message.message_id)
                          and (l.noted_by is null or pg_visible_in_snapshot(l.noted_by, v_position.seen))
                        for update skip locked;
                    end if;
                    if v_alive then
                        insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids)
                        values (
                            v_queue.id, consume_message.message_id, v_position.deadline, v_position.now, consumer_token,
                            array[consume_message.message_id]);
                        insert into penstock_data.positions (
                            queue_id, seq, window_from, window_to, last_xid, last_id, flagged_from, floor, full_scan_at, attend_at)
                        values (
                            v_queue.id, v_position.seq + 1, v_position.window_from, v_position.window_to, v_xid,
                            consume_message.message_id, v_position.flagged_from, v_position.now, v_position.full_scan_at,
                            least(v_position.attend_at, v_position.deadline));
                        if v_position.awaited then
                            perform penstock_data.end_waiting(v_queue.topic_id, v_queue.id, consumer_token, v_position.now);
                        end if;
                        return next;
                        return;
                    end if;
                end if;
                v_share := v_position.plain and not v_position.alone;
            elsif v_queue.id is null and not v_waited then
                -- Another claim has the lock.
                return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, 1);
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
            return query select * from penstock_data.claim_ahead(queue_name, consumer_token, vt_seconds, 1);
            return;
        end if;
        perform set_config('penstock.beside', queue_name, false);
        if v_turn = 'beside' then
            return query select * from penstock_data.claim_beside(queue_name, consumer_token, vt_seconds, 1, true);
            if found then
                return;
            end if;
        end if;
        v_waited := v_turn = 'locked';
    end loop;
    if v_share then
        return query select * from penstock_data.claim_and_share(queue_name, consumer_token, vt_seconds, 1, v_queue.last_id, v_waited);
        return;
    end if;
    return query select * from penstock_data.claim_with_care(queue_name, consumer_token, vt_seconds, 1, v_queue.last_id);
end
$$;
comment on function penstock.consume_message(text, text, int) is 'Claim the next message of a queue for vt_seconds.';
