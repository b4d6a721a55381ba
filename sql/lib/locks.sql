-- The claim lock of a queue: claims that move its position take turns, and calls that change what claims rely on take it too.
-- It is a row lock on penstock_data.claim_locks, held until the transaction ends.

-- Take the claim lock.  p_wait false: do not wait.  Returns false when another transaction holds it, and when there is
-- no such queue.
-- Without a row in claim_locks (after a crash) the row of the queue itself is locked.  restore_claim_locks() adds the
-- missing row while it holds that lock, so after a wait we look once more whether the row has come.
create or replace function penstock_data.take_claim_lock(p_queue_name text, p_wait boolean) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    v_id     bigint := (select q.id from penstock_data.queues q where q.name = p_queue_name);
    v_exists boolean := exists (select from penstock_data.claim_locks l where l.queue_id = v_id);
begin
    if not v_exists then
        if p_wait then
            perform from penstock_data.queues q where q.id = v_id for no key update;
        else
            perform from penstock_data.queues q where q.id = v_id for no key update skip locked;
        end if;
        if not found then
            return false;
        end if;
        v_exists := exists (select from penstock_data.claim_locks l where l.queue_id = v_id);
    end if;
    if not v_exists then
        return true;
    elsif p_wait then
        perform from penstock_data.claim_locks l where l.queue_id = v_id for update;
    else
        perform from penstock_data.claim_locks l where l.queue_id = v_id for update skip locked;
    end if;
    return found;
end
$$;

-- Take the claim lock of a queue, however long that takes.
create or replace function penstock_data.lock_queue(p_queue_name text) returns void
language plpgsql as $$
begin
    perform penstock_data.take_claim_lock(p_queue_name, true);
end
$$;

-- Take the claim lock of a queue without waiting.  False: another transaction holds it.
create or replace function penstock_data.try_lock_queue(p_queue_name text) returns boolean
language plpgsql as $$
begin
    return penstock_data.take_claim_lock(p_queue_name, false);
end
$$;

-- Take the claim lock for a claim: wait for settings.lock_wait at most.  False: another transaction held it longer.
create or replace function penstock_data.await_queue_lock(p_queue_name text) returns boolean
language plpgsql as $$
declare
    v_before text := current_setting('lock_timeout');
    v_held   boolean;
begin
    perform set_config('lock_timeout', greatest(1, extract(epoch from s.lock_wait) * 1000)::int::text, true)
    from penstock_data.settings s;
    begin
        v_held := penstock_data.take_claim_lock(p_queue_name, true);
    exception when lock_not_available then
        v_held := false;
    end;
    perform set_config('lock_timeout', v_before, true);
    return v_held;
end
$$;

-- The claim lock of a queue, for a claim that did not get it at once.  False: claim nothing.
create or replace function penstock_data.await_claim_turn(p_queue_name text) returns boolean
language plpgsql as $$
begin
    if pg_is_in_recovery() then
        perform penstock_data.fail('PS011', 'messages cannot be claimed on a standby');
    end if;
    if penstock_data.try_lock_queue(p_queue_name) or penstock_data.await_queue_lock(p_queue_name) then
        return true;
    end if;
    -- No such queue, or it was deleted while we waited.
    if not exists (select from penstock_data.queues q where q.name = p_queue_name) then
        perform penstock_data.check_queue(p_queue_name);
    end if;
    return false;
end
$$;

-- Add the rows of claim_locks that a crash or a restore has taken away.  Returns how many.  A queue that is being claimed
-- from is left to the next time.
create or replace function penstock_data.restore_claim_locks() returns bigint
language plpgsql as $$
declare
    v_count bigint;
begin
    insert into penstock_data.claim_locks (queue_id)
    select m.id from (
        select q.id from penstock_data.queues q
        where not exists (select from penstock_data.claim_locks l where l.queue_id = q.id)
        for no key update skip locked) m
    on conflict do nothing;
    get diagnostics v_count = row_count;
    return v_count;
end
$$;

-- Lock a name of some kind until the transaction ends, however long it takes to get the lock.
create or replace function penstock_data.lock_name(p_kind text, p_name text) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
begin
    perform from penstock_data.named_locks l where l.slot = hashtextextended(p_kind || ' ' || p_name, 0) & 4095 for update;
end
$$;

-- A transaction id with its epoch, from the 32 bits that a row's header keeps.
create or replace function penstock_data.full_xid(p_xid xid) returns xid8
language sql stable as $$
    select (n.next - (n.next - p_xid::text::bigint + 2147483648 & 4294967295) + 2147483648)::text::xid8
    from (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next) n
$$;

-- Sessions that hold a claim lock in a transaction older than p_age.
-- pg_locks does not show row locks.  The xmax of a row names the transaction that locked it last.  That may be a
-- subtransaction, whose own lock ends before the row lock does; then the holder is among the older transactions that have
-- locked a row of the table.
create or replace function penstock_data.claim_lock_holders(p_age interval)
returns table (queue_name text, pid int)
language plpgsql stable as $$
#variable_conflict use_column
begin
    if pg_is_in_recovery() then
        return;         -- nothing is claimed on a standby, and it has no unlogged tables
    end if;
    return query
    select distinct q.name, k.pid
    from penstock_data.claim_locks l
    join penstock_data.queues q on q.id = l.queue_id
    join pg_locks k on k.locktype = 'relation' and k.relation = 'penstock_data.claim_locks'::regclass and k.mode = 'RowShareLock' and k.granted
        and k.database = (select d.oid from pg_database d where d.datname = current_database())
    join pg_locks x on x.pid = k.pid and x.locktype = 'transactionid' and x.mode = 'ExclusiveLock' and x.granted
    where l.xmax <> '0' and k.pid <> pg_backend_pid() and pg_xact_status(penstock_data.full_xid(l.xmax)) = 'in progress'
      and (x.transactionid = l.xmax
           or penstock_data.full_xid(x.transactionid) < penstock_data.full_xid(l.xmax) and not exists (
               select from pg_locks o where o.locktype = 'transactionid' and o.transactionid = l.xmax and o.mode = 'ExclusiveLock' and o.granted))
      and exists (select from pg_stat_get_activity(k.pid) a where a.xact_start < clock_timestamp() - p_age);
end
$$;
