-- Say what is wrong with the settings of a queue.
create or replace function penstock_data.check_queue_settings(
    p_exclusive boolean, p_attempts int, p_keep_alive int, p_ordering text, p_start_at text, p_base numeric, p_cap numeric,
    p_retention interval, p_filter jsonb, p_notify text
) returns void
language plpgsql as $$
begin
    perform penstock_data.check_range('max_delivery_attempts', p_attempts, 0, 1000000);
    perform penstock_data.check_range('retry_base_seconds', p_base, 0, 31536000);
    perform penstock_data.check_range('retry_cap_seconds', p_cap, 0, 31536000);
    if p_exclusive is null then
        perform penstock_data.fail('PS005', 'exclusive must be true or false, not null');
    elsif p_keep_alive is not null and not p_exclusive then
        perform penstock_data.fail('PS005', 'keep_alive_seconds is only for exclusive queues');
    elsif p_keep_alive is not null then
        perform penstock_data.check_range('keep_alive_seconds', p_keep_alive, 1, 31536000);
    end if;
    if p_ordering is null or p_ordering not in ('standard', 'fifo', 'fair') then
        perform penstock_data.fail('PS005', format('ordering must be ''standard'', ''fifo'' or ''fair'', not %s', quote_nullable(p_ordering)));
    elsif p_notify is null or p_notify not in ('waiting', 'always', 'never') then
        perform penstock_data.fail('PS005', format('notify must be ''waiting'', ''always'' or ''never'', not %s', quote_nullable(p_notify)));
    elsif p_start_at is null then
        perform penstock_data.fail('PS005', 'start_at must be ''end'', ''beginning'' or a timestamp, not null');
    elsif p_retention <= interval '0' or p_retention > interval '100 years' then
        perform penstock_data.fail('PS005', format('retention must be positive and at most 100 years, not %s', p_retention));
    elsif jsonb_typeof(p_filter) <> 'object' or p_filter - array['headers', 'payload'] <> '{}' or p_filter = '{}'
          or jsonb_typeof(p_filter -> 'headers') <> 'object' then
        perform penstock_data.fail('PS005', 'filter must be a JSON object with "headers" (an object) or "payload" or both');
    end if;
end
$$;

-- Refuse to take a queue for another one: name every setting that differs.
create or replace function penstock_data.check_same_queue(
    p_old penstock_data.queues, p_topic_id bigint, p_exclusive boolean, p_attempts int, p_ordering text, p_base interval,
    p_cap interval, p_retention interval, p_filter jsonb, p_notify text
) returns void
language plpgsql as $$
declare
    v_differs text := concat_ws(', ',
        case when p_old.topic_id <> p_topic_id then 'topic_name' end,
        case when p_old.exclusive <> p_exclusive then 'exclusive' end,
        case when p_old.max_delivery_attempts <> p_attempts then 'max_delivery_attempts' end,
        case when p_old.ordering <> p_ordering then 'ordering' end,
        case when p_old.retry_base <> p_base then 'retry_base_seconds' end,
        case when p_old.retry_cap <> p_cap then 'retry_cap_seconds' end,
        case when p_old.retention is distinct from p_retention then 'retention' end,
        case when p_old.filter is distinct from p_filter then 'filter' end,
        case when p_old.notify <> p_notify then 'notify' end);
begin
    if v_differs <> '' then
        perform penstock_data.fail('PS006', format('queue %L exists with other settings: %s', p_old.name, v_differs));
    end if;
end
$$;

-- Remove a queue and everything in it.  Waits for the claim that is under way.  Receipts stay in their segments, where
-- nothing names them any more, until those are emptied.
create or replace function penstock_data.drop_queue(p_name text) returns void
language plpgsql as $$
declare
    v_id bigint := (select q.id from penstock_data.queues q where q.name = p_name);
begin
    perform penstock_data.lock_queue_and_claims(v_id, p_name);
    update penstock_data.topics t set always = array_remove(t.always, penstock_data.channel('queue', p_name))
    from penstock_data.queues q where q.id = v_id and q.notify = 'always' and t.id = q.topic_id;
    delete from penstock_data.queues q where q.id = v_id;
    delete from penstock_data.positions p where p.queue_id = v_id;
    perform penstock_data.clear_queue(v_id);
    delete from penstock_data.waiting w where w.queue_id = v_id;
end
$$;

-- The claim lock of a queue, and the rows of its claims: all of them, those that hold one message, or its slices.
-- A transaction that has a claim's row may need the queue's lock next.  So a row is waited for with the queue's lock in
-- hand for a tenth of a second at most; then both are let go, the row is waited for without the lock, and all begins
-- anew.  Letting go means the end of a subtransaction.
create or replace function penstock_data.lock_queue_and_claims(
    p_queue_id bigint, p_queue_name text, p_message_id bigint default null, p_slices boolean default false
) returns void
language plpgsql as $$
declare
    v_before text := current_setting('lock_timeout');
    v_locked boolean;
    v_places tid[];
begin
    loop
        v_locked := false;
        begin
            perform penstock_data.lock_queue(p_queue_name);
            v_locked := true;
            perform set_config('lock_timeout', '100ms', true);
            loop
                v_places := array(
                    select c.ctid from penstock_data.claims c
                    where c.queue_id = p_queue_id and (p_message_id is null or p_message_id = any (c.message_ids))
                      and (not p_slices or c.token = '') for update);
                -- An extension that we waited for has left a new row.
                exit when not exists (
                    select from penstock_data.claims c
                    where c.queue_id = p_queue_id and (p_message_id is null or p_message_id = any (c.message_ids))
                      and (not p_slices or c.token = '')
                      and c.ctid <> all (v_places));
            end loop;
            perform set_config('lock_timeout', v_before, true);
            return;
        exception when lock_not_available then
            if not v_locked then
                raise;      -- the caller's own lock_timeout
            end if;
        end;
        begin
            perform from penstock_data.claims c
            where c.queue_id = p_queue_id and (p_message_id is null or p_message_id = any (c.message_ids))
              and (not p_slices or c.token = '') for update;
            raise sqlstate 'PS000';
        exception when sqlstate 'PS000' then
            null;
        end;
    end loop;
end
$$;

-- Drop everything that has left the log and is not done.  Under the queue's lock and those of its claims.
create or replace function penstock_data.clear_queue(p_queue_id bigint) returns void
language plpgsql as $$
begin
    delete from penstock_data.claims c where c.queue_id = p_queue_id;
    delete from penstock_data.claimed_ahead a where a.queue_id = p_queue_id;
    delete from penstock_data.scheduled s where s.queue_id = p_queue_id;
    delete from penstock_data.backlog b where b.queue_id = p_queue_id;
    delete from penstock_data.lanes l where l.queue_id = p_queue_id;
    delete from penstock_data.renewals r where r.queue_id = p_queue_id;
end
$$;
