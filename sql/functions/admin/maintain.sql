-- All housekeeping in one call: safe from everywhere at once (whoever comes second does nothing), and consuming never
-- depends on it.  Returns what was done, step by step.
-- Errors: PS005 under REPEATABLE READ or SERIALIZABLE, where it could not see what was written just now.
-- Locks: briefly and with a short lock_timeout the table of a segment that is emptied.
create or replace function penstock.maintain() returns table (step text, affected bigint)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := penstock_data.clock();
begin
    perform penstock_data.check_incarnation();
    if current_setting('transaction_isolation') <> 'read committed' then
        perform penstock_data.fail('PS005', format('maintain() needs a transaction with isolation level read committed, not %s',
            current_setting('transaction_isolation')));
    end if;
    if not pg_try_advisory_xact_lock(1346719317, 0) then
        return;
    end if;
    return query values
        ('claims taken back', penstock_data.take_back_everywhere(v_now)),
        ('exclusive queues deleted', penstock.cleanup_expired_exclusive_queues()::bigint),
        ('dedupe keys forgotten', penstock_data.forget_dedupe_keys(v_now)),
        ('positions trimmed', penstock_data.trim_positions()),
        ('flags trimmed', penstock_data.trim_flags()),
        ('lanes trimmed', penstock_data.trim_lanes(v_now)),
        ('registrations dropped', penstock_data.drop_registrations(v_now)),
        ('stages swept', penstock_data.sweep_stages(v_now)),
        ('messages moved', pgqs.run_move_tasks()),
        ('messages lapsed', penstock_data.lapse_everywhere(v_now)),
        ('kept messages dropped', penstock_data.sweep_kept()::bigint),
        ('segments switched', penstock_data.rotate('messages', v_now)::int + penstock_data.rotate('receipts', v_now)::int::bigint),
        ('segments emptied', (penstock_data.empty_segments('messages', v_now) + penstock_data.empty_segments('receipts', v_now))::bigint),
        ('log full', penstock_data.watch_size()::int::bigint);
end
$$;
comment on function penstock.maintain() is 'All housekeeping; safe to call from everywhere at once.';
