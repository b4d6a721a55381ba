-- The claim lock of a queue: claims that move its position take turns, and calls that change what claims rely on take
-- it too.  It is a row lock on penstock_data.claim_locks, held until the transaction ends.  Claims take it FOR NO KEY
-- UPDATE, so that others can claim ahead of the position meanwhile, FOR KEY SHARE (claim/ahead.sql).  The other calls
-- take it alone, FOR UPDATE.

-- Take the claim lock, alone or as claims do.  p_wait false: do not wait.  Returns false when another transaction holds
-- it, and when there is no such queue.  Without a row in claim_locks (after a crash) the row of the queue itself is
-- locked.  The transaction that locks it adds the missing row, so after a wait we look once more whether the row has
-- come.
create or replace function penstock_data.take_claim_lock(p_queue_name text, p_wait boolean, p_alone boolean default true)
returns boolean
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
        insert into penstock_data.claim_locks (queue_id) values (v_id) on conflict do nothing;
        return true;
    elsif p_wait and p_alone then
        perform from penstock_data.claim_locks l where l.queue_id = v_id for update;
    elsif p_alone then
        perform from penstock_data.claim_locks l where l.queue_id = v_id for update skip locked;
    elsif p_wait then
        perform from penstock_data.claim_locks l where l.queue_id = v_id for no key update;
    else
        perform from penstock_data.claim_locks l where l.queue_id = v_id for no key update skip locked;
    end if;
    return found;
end
$$;

-- Take the claim lock of a queue alone, however long that takes.  PostgreSQL lets more claims ahead in while this
-- waits, so a gate keeps new ones out.  It is not waited for: while another transaction holds the gate, they are kept
-- out as well.
create or replace function penstock_data.lock_queue(p_queue_name text) returns void
language plpgsql as $$
begin
    if not penstock_data.take_claim_lock(p_queue_name, false) then
        perform penstock_data.close_gate(p_queue_name);
        perform penstock_data.take_claim_lock(p_queue_name, true);
    end if;
end
$$;

-- Close the gate of a queue until the transaction ends.  One that is closed already is not waited for.  A claim that
-- looks at the gate holds it for a moment; then try again.
create or replace function penstock_data.close_gate(p_queue_name text) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    v_id bigint := (select q.id from penstock_data.queues q where q.name = p_queue_name);
begin
    loop
        perform from penstock_data.message_locks l where l.slot = penstock_data.gate_slot(v_id) for update skip locked;
        exit when found or v_id is null or penstock_data.gate_is_closed(v_id);
    end loop;
end
$$;

-- Take the claim lock of a queue alone, without waiting.  False: another transaction holds it.
create or replace function penstock_data.try_lock_queue(p_queue_name text) returns boolean
language plpgsql as $$
begin
    return penstock_data.take_claim_lock(p_queue_name, false);
end
$$;

-- Take the claim lock for a claim, and wait for p_wait at most.  False: another transaction held it longer.  p_alone:
-- behind the gate, which opens again if this was in vain.  Otherwise the lock is given back when there is a slice to
-- take from: so those who wait for one cut follow each other at once, and not each after the commit of the one before.
create or replace function penstock_data.await_queue_lock(p_queue_name text, p_wait interval, p_alone boolean) returns boolean
language plpgsql as $$
declare
    v_before text := current_setting('lock_timeout');
    v_held   boolean;
begin
    perform set_config('lock_timeout', greatest(1, extract(epoch from p_wait) * 1000)::int::text, true);
    begin
        if p_alone then
            perform penstock_data.close_gate(p_queue_name);
        end if;
        v_held := penstock_data.take_claim_lock(p_queue_name, true, p_alone);
        if not p_alone and penstock_data.lock_slice(p_queue_name, true) is not null then
            raise lock_not_available;
        end if;
    exception when lock_not_available then
        v_held := false;
    end;
    perform set_config('lock_timeout', v_before, true);
    return v_held;
end
$$;

-- Wait for the claim lock of a queue, for a claim that did not get it at once.  Returns
--     'locked'   the claim holds the lock
--     'beside'   it does not hold the lock, but there is a slice, which is locked
--     'ahead'    claim ahead of the position
--     null       claim nothing
-- Usually other claims hold the lock for a moment each, and this claim waits for its turn.  It goes ahead if one
-- transaction has held the lock for 0.2 seconds and is idle (checked twice: it may be about to commit), or has held it
-- until the end of lock_wait.  A claim ahead costs far more than a claim that gets its turn.  So on a busy server, slow
-- claims must not be taken for long ones.
create or replace function penstock_data.await_claim_turn(p_queue_name text) returns text
language plpgsql as $$
declare
    c_long   constant interval := '200 milliseconds';
    c_short  constant interval := '20 milliseconds';
    v_ends   timestamptz := clock_timestamp() + (select s.lock_wait from penstock_data.settings s);
    v_last   text := current_setting('penstock.ahead', true);       -- the transaction that this session went ahead of last
    v_open   boolean := pg_current_xact_id_if_assigned() is not null;
    v_id     bigint := (select q.id from penstock_data.queues q where q.name = p_queue_name);
    v_start  xid8;                      -- the transaction that held the lock at first, …
    v_before xid8;                      -- … before the last wait, …
    v_holder xid8;                      -- … and now
    v_idle   int := 0;                  -- how often it was found idle
    v_late   boolean := false;          -- lock_wait is over
    v_long   boolean := false;          -- a transaction holds the lock for long
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        -- With an old snapshot it doesn't see what is claimed ahead meanwhile.
        return case when penstock_data.await_lone_turn(p_queue_name) then 'locked' end;
    end if;
    perform penstock_data.check_primary();
    if penstock_data.take_claim_lock(p_queue_name, false, false) then
        return 'locked';
    end if;
    -- A transaction that claimed before does not wait for a call that waits for it.
    if v_open and penstock_data.gate_is_closed(v_id) then
        return null;
    end if;
    -- A session that has met a long claim does not wait for it again, and not long for the next one.
    v_holder := penstock_data.claim_lock_xid(v_id);
    v_start := v_holder;
    v_long := v_holder::text = v_last;
    loop
        if v_long then
            -- Not in the same condition: its locks make other claims slower.
            if penstock_data.may_claim_ahead(p_queue_name) then
                perform set_config('penstock.ahead', coalesce(v_holder::text, ''), false);
                return 'ahead';
            end if;
        end if;
        -- Without the queue, a wait for its lock would end at once.
        perform penstock_data.check_exists(p_queue_name);
        exit when v_late;
        v_before := v_holder;
        if penstock_data.await_queue_lock(
            p_queue_name, least(v_ends - clock_timestamp(), case when v_last <> '' or v_idle > 0 then c_short else c_long end), false)
        then
            perform set_config('penstock.ahead', '', false);
            return 'locked';
        elsif penstock_data.lock_slice(p_queue_name, true) is not null then
            return 'beside';
        end if;
        v_late := clock_timestamp() >= v_ends;
        v_holder := penstock_data.claim_lock_xid(v_id);
        v_idle := case when v_holder = v_before and penstock_data.has_idle_claim(v_holder) then v_idle + 1 else 0 end;
        v_long := v_idle >= 2 or v_late and v_holder = v_start;
    end loop;
    return null;
end
$$;

-- Is there a transaction that has claimed, is idle now, and is not younger than this one?  The xid of a lock may be
-- that of a subtransaction, so its session isn't known.  The state of a session is hidden if the owner of the engine
-- may not see it (pg_read_all_stats); then one without a snapshot is taken for idle.
create or replace function penstock_data.has_idle_claim(p_xid xid8) returns boolean
language plpgsql stable as $$
begin
    return exists (
        select from pg_locks k
        join pg_stat_get_activity(null) a on a.pid = k.pid and a.backend_xid is not null
            and coalesce(a.state like 'idle in transaction%', a.backend_xmin is null)
        where k.locktype = 'relation' and k.relation = 'penstock_data.claim_locks'::regclass and k.mode = 'RowShareLock' and k.granted
          and k.database = (select d.oid from pg_database d where d.datname = current_database())
          and penstock_data.full_xid(a.backend_xid) <= p_xid);
end
$$;

-- The claim lock alone, for a claim that has to see all that the queue has.  False: another transaction held it for
-- lock_wait.
create or replace function penstock_data.await_lone_turn(p_queue_name text) returns boolean
language plpgsql as $$
begin
    perform penstock_data.check_primary();
    if penstock_data.try_lock_queue(p_queue_name)
       or penstock_data.await_queue_lock(p_queue_name, (select s.lock_wait from penstock_data.settings s), true) then
        return true;
    end if;
    perform penstock_data.check_exists(p_queue_name);
    return false;
end
$$;

-- Refuse a claim on a standby.
create or replace function penstock_data.check_primary() returns void
language plpgsql as $$
begin
    if pg_is_in_recovery() then
        perform penstock_data.fail('PS011', 'messages cannot be claimed on a standby');
    end if;
end
$$;

-- Raise the error of a queue that does not exist, or was deleted while a claim waited for it.
create or replace function penstock_data.check_exists(p_queue_name text) returns void
language plpgsql as $$
begin
    if not exists (select from penstock_data.queues q where q.name = p_queue_name) then
        perform penstock_data.check_queue(p_queue_name);
    end if;
end
$$;

-- Add the rows of claim_locks that a crash or a restore has taken away.  Returns how many.  A queue that is being
-- claimed from is left to the next time.
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

-- The open transactions that the xmax of a row names: one, or the members of a multixact.  The row doesn't tell which
-- of the two its number is, so both are looked for; a number that is not that of any is an error of PostgreSQL.
create or replace function penstock_data.lockers(p_xmax xid) returns setof xid
language plpgsql stable as $$
declare
    v_xids xid[] := array[p_xmax];
    v_xid  xid;
begin
    begin
        v_xids := v_xids || array(select m.xid from pg_get_multixact_members(p_xmax) m);
    exception when others then
        null;
    end;
    foreach v_xid in array v_xids loop
        begin
            if pg_xact_status(penstock_data.full_xid(v_xid)) = 'in progress' then
                return next v_xid;
            end if;
        exception when others then
            null;
        end;
    end loop;
end
$$;

-- The transaction whose claim holds the claim lock of a queue; null: it has ended.  The first part serves when no claim
-- goes ahead.
create or replace function penstock_data.claim_lock_xid(p_queue_id bigint) returns xid8
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    v_xmax xid := (select l.xmax from penstock_data.claim_locks l where l.queue_id = p_queue_id);
begin
    begin
        if pg_xact_status(penstock_data.full_xid(v_xmax)) = 'in progress' then
            return penstock_data.full_xid(v_xmax);
        end if;
    exception when others then
        null;
    end;
    -- Claims ahead share the lock; then xmax is a multixact.
    return (
        select penstock_data.full_xid(x) from penstock_data.lockers(v_xmax) x
        where case when x = v_xmax then true
            else not exists (select from pg_get_multixact_members(v_xmax) m where m.xid = x and m.mode = 'keysh') end
        limit 1);
end
$$;

-- Sessions that hold a claim lock in a transaction older than p_age.
-- pg_locks does not show row locks.  The xmax of a row names the transactions that locked it last.  One may be a
-- subtransaction, whose own lock ends before the row lock does; then the holder is among the older transactions that
-- have locked a row of the table.
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
    cross join lateral penstock_data.lockers(l.xmax) as h(xid)
    join penstock_data.queues q on q.id = l.queue_id
    join pg_locks k on k.locktype = 'relation' and k.relation = 'penstock_data.claim_locks'::regclass and k.mode = 'RowShareLock' and k.granted
        and k.database = (select d.oid from pg_database d where d.datname = current_database())
    join pg_locks x on x.pid = k.pid and x.locktype = 'transactionid' and x.mode = 'ExclusiveLock' and x.granted
    where l.xmax <> '0' and k.pid <> pg_backend_pid()
      and (x.transactionid = h.xid
           or penstock_data.full_xid(x.transactionid) < penstock_data.full_xid(h.xid) and not exists (
               select from pg_locks o where o.locktype = 'transactionid' and o.transactionid = h.xid and o.mode = 'ExclusiveLock' and o.granted))
      and exists (select from pg_stat_get_activity(k.pid) a where a.xact_start < clock_timestamp() - p_age);
end
$$;
