-- Housekeeping in steps (docs/operate/maintain.md): each is a transaction of its own, does a bounded amount of
-- work, waits for no lock, and tells its own error.

-- Steps that go queue by queue.  Only one queue is touched in a transaction, so that whatever holds it open holds up no
-- other queue; hundreds are looked at.  A queue that fails stops no other.
create or replace function penstock_data.tend_queues(
    p_step text, p_now timestamptz, inout p_reached bigint, out affected bigint, out more boolean, out code text, out error text
)
language plpgsql as $$
declare
    c_look  constant int := 500;        -- queues in a transaction
    c_most  constant int := 1000;       -- claims or lanes of one queue
    v_queue penstock_data.queues;
    v_seen  int := 0;
    v_count bigint;
begin
    affected := 0;
    more := false;
    for v_queue in select * from penstock_data.queues q where q.id > p_reached order by q.id limit c_look loop
        v_seen := v_seen + 1;
        begin
            case p_step
                when 'claims taken back' then
                    v_count := nullif(
                        penstock_data.take_back(v_queue.id, '-infinity', p_now, false, c_most)
                        + penstock_data.end_slices(v_queue.id, p_now, p_now - interval '10 seconds'), 0);
                when 'lanes trimmed' then v_count := penstock_data.trim_lanes(v_queue, p_now, c_most);
                when 'messages lapsed' then v_count := penstock_data.lapse_idle(v_queue, p_now);
                when 'exclusive queues deleted' then v_count := penstock_data.delete_ended(v_queue);
            end case;
        exception
            when lock_not_available or deadlock_detected then
                v_count := null;        -- in use: another time
            when others then
                v_count := null;
                code := sqlstate;
                error := format('queue %L: %s', v_queue.name, sqlerrm);
        end;
        affected := affected + coalesce(v_count, 0);
        -- A queue with more of them comes again.
        more := v_count is not null and p_step <> 'exclusive queues deleted';
        p_reached := v_queue.id - (more and p_step <> 'messages lapsed' and v_count = c_most)::int;
        exit when more;
    end loop;
    more := more or v_seen = c_look;
    if not more then
        p_reached := 0;
    end if;
end
$$;

-- What a step does.
create or replace function penstock_data.run_step(
    p_step text, p_now timestamptz, inout p_reached bigint, out affected bigint, out more boolean, out code text, out error text
)
language plpgsql as $$
declare
    c_most constant int := 10000;
begin
    case p_step
        when 'claims taken back', 'exclusive queues deleted', 'lanes trimmed', 'messages lapsed' then
            select t.p_reached, t.affected, t.more, t.code, t.error into p_reached, affected, more, code, error
            from penstock_data.tend_queues(p_step, p_now, p_reached) t;
        when 'segments emptied' then
            select t.affected, t.more into affected, more from penstock_data.empty_segment(p_now) t;
        when 'segments dropped' then
            select t.affected, t.more into affected, more from penstock_data.drop_surplus_segment(p_now) t;
        else
            affected := case p_step
                when 'dedupe keys forgotten' then penstock_data.forget_dedupe_keys(p_now, c_most)
                when 'positions trimmed' then penstock_data.trim_positions(c_most)
                when 'flags trimmed' then penstock_data.trim_flags(c_most)
                when 'registrations dropped' then penstock_data.drop_registrations(p_now, c_most)
                when 'stages swept' then penstock_data.sweep_stages(p_now)
                when 'messages moved' then pgqs.run_move_tasks()
                when 'kept messages dropped' then penstock_data.sweep_kept(c_most)
                when 'segments switched' then
                    penstock_data.retire_free_segments(p_now)
                        + penstock_data.rotate('messages', p_now)::int + penstock_data.rotate('receipts', p_now)::int
                when 'log full' then penstock_data.watch_size()::int
                when 'claim locks restored' then penstock_data.restore_claim_locks()
            end;
            more := affected >= c_most;
    end case;
end
$$;

-- Do a step, and note when it fails.  No row: another session does it at this moment.
create or replace function penstock_data.do_step(p_step text) returns table (affected bigint, more boolean, error text)
language plpgsql as $$
#variable_conflict use_column
declare
    v_before text := current_setting('lock_timeout');
    v_now    timestamptz;
    v_state  penstock_data.maintenance;
    v_done   record;
begin
    select * into v_state from penstock_data.maintenance m where m.step = p_step for update skip locked;
    if not found then
        return;
    end if;
    -- Behind the lock: a session that does this step may hold a segment, and this looks at all of them.
    perform penstock_data.check_incarnation();
    v_now := penstock_data.clock();
    begin
        perform set_config('lock_timeout', '50ms', true);
        select d.* into v_done from penstock_data.run_step(p_step, v_now, v_state.reached) d;
    exception when others or query_canceled then
        -- statement_timeout ends a step as an error of its own; a caller who cancels wants all of it to end.
        if sqlstate = '57014' and current_setting('statement_timeout') = '0' then
            raise;
        end if;
        select v_state.reached as p_reached, 0::bigint as affected, false as more, sqlstate as code, sqlerrm as error into v_done;
    end;
    perform set_config('lock_timeout', v_before, true);
    if v_done.error is not null then
        update penstock_data.maintenance m
        set reached = v_done.p_reached, marred = v_done.p_reached > 0, failing_since = coalesce(m.failing_since, v_now), failed_at = v_now,
            failures = m.failures + 1, code = v_done.code, error = v_done.error
        where m.step = p_step;
    elsif v_done.p_reached > 0 or v_state.marred then
        -- In the middle of a round, or at the end of one in which a queue failed.
        update penstock_data.maintenance m set reached = v_done.p_reached, marred = m.marred and v_done.p_reached > 0
        where m.step = p_step;
    elsif v_state.reached > 0 or v_state.failing_since is not null or v_state.done_at not between v_now - interval '1 hour' and v_now then
        update penstock_data.maintenance m
        set reached = 0, done_at = v_now, failing_since = null, failed_at = null, failures = 0, code = null, error = null
        where m.step = p_step;
    end if;
    return query select v_done.affected, v_done.more, v_done.error;
end
$$;

-- Refuse what no step can do: with an old snapshot it would not see what was written just now.
create or replace function penstock_data.check_maintenance() returns void
language plpgsql as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform penstock_data.fail('PS005', format('maintenance needs a transaction with isolation level read committed, not %s',
            current_setting('transaction_isolation')));
    end if;
end
$$;

-- The caller holds a lock that stops every claim.  A session that keeps its transaction open and does nothing is ended.
create or replace function penstock_data.limit_idleness() returns void
language sql as $$
    select set_config('idle_in_transaction_session_timeout', '5s', true)
    from pg_settings s where s.name = 'idle_in_transaction_session_timeout' and s.setting::int not between 1 and 5000
$$;
