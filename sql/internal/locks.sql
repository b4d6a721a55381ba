-- Claims on one queue take turns.  False: somebody else kept the lock longer than settings.lock_wait, so claim nothing.
-- The key is the hash of the name, so that the lock is taken before anything is read.  It ends with the transaction.
-- The caller tries pg_try_advisory_xact_lock itself first, this is the slow way.
create or replace function penstock_data.await_queue_lock(p_queue_name text) returns boolean
language plpgsql as $$
declare
    v_before text := current_setting('lock_timeout');
begin
    perform set_config('lock_timeout', greatest(1, extract(epoch from s.lock_wait) * 1000)::int::text, true)
    from penstock_data.settings s;
    begin
        perform pg_advisory_xact_lock(1346719315, hashtext(p_queue_name));
    exception when lock_not_available then
        perform set_config('lock_timeout', v_before, true);
        return false;
    end;
    perform set_config('lock_timeout', v_before, true);
    return true;
end
$$;

-- The claim lock of a queue, for a claim that does not go the short way.  False: claim nothing.
create or replace function penstock_data.await_claim_turn(p_queue_name text) returns boolean
language plpgsql as $$
begin
    if pg_is_in_recovery() then
        perform penstock_data.fail('PS011', 'messages cannot be claimed on a standby');
    end if;
    return pg_try_advisory_xact_lock(1346719315, hashtext(p_queue_name)) or penstock_data.await_queue_lock(p_queue_name);
end
$$;
