-- The steps of housekeeping, in their order.  done_at: the last success, to the hour.  failing_since: since when it
-- fails, how often it did, and why the last time; null: it does not.
-- Roles: consumer, monitor, admin
create or replace function penstock.maintenance_steps()
returns table (step text, done_at timestamptz, failing_since timestamptz, failures int, error text)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select m.step, m.done_at, m.failing_since, m.failures, m.error from penstock_data.maintenance m order by m.place
$$;
comment on function penstock.maintenance_steps() is 'The steps of housekeeping, and which of them fail.';

-- One step of housekeeping, a bounded amount of it.  more: there is more to do, call it again.  error: why it failed;
-- what it did is undone then, and health() tells since when it fails.  No row: another session does it at this moment.
-- Call it in a transaction of its own: what it takes from queues belongs to the transaction until it ends.
-- Errors: PS005 unknown step; PS005 under REPEATABLE READ or SERIALIZABLE, where it could not see what was written just
-- now.
-- Locks: the claim lock of one queue; or briefly the table of one segment, or the log.  It waits 50 ms for a lock at
-- most.
-- Roles: consumer, admin
create or replace function penstock.maintain_step(step_name text) returns table (step text, affected bigint, more boolean, error text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_maintenance();
    if not exists (select from penstock_data.maintenance m where m.step = step_name) then
        perform penstock_data.fail('PS005', format('there is no step %L, see penstock.maintenance_steps()', step_name));
    end if;
    return query select step_name, d.affected, d.more, d.error from penstock_data.do_step(step_name) d;
end
$$;
comment on function penstock.maintain_step(text) is 'One step of housekeeping, a bounded amount of it.';

-- All housekeeping, each step in transactions of its own: call penstock.run_maintenance().  Safe from everywhere at
-- once, and consuming never depends on it.  A step that fails is told by a warning and stops no other.  It commits, so
-- it can't be called inside a transaction; its caller's rights are enough, because each step has its own.
-- Roles: consumer, admin
create or replace procedure penstock.run_maintenance()
language plpgsql as $$
declare
    c_most constant int := 1000;        -- times a step in one run
    v_step text;
    v_done record;
begin
    foreach v_step in array array(select s.step from penstock.maintenance_steps() s) loop
        for v_time in 1 .. c_most loop
            select * into v_done from penstock.maintain_step(v_step);
            commit;
            if v_done.error is not null then
                raise warning 'maintenance step % failed: %', v_step, v_done.error;
            end if;
            exit when v_done.more is not true;
        end loop;
    end loop;
end
$$;
comment on procedure penstock.run_maintenance() is 'All housekeeping, each step in transactions of its own.';

-- Housekeeping in one transaction, for callers that can't call run_maintenance(): every step once, but for those that
-- need a transaction of their own because others would wait for what they hold (claims taken back, lanes trimmed,
-- messages moved, messages lapsed, segments dropped).  At most one segment is emptied.  No row: another session does
-- that step.
-- Errors: PS005 under REPEATABLE READ or SERIALIZABLE, where it could not see what was written just now.
-- Locks: until the transaction ends the table of the segment that was emptied, so end it at once.
-- Roles: consumer, admin
create or replace function penstock.maintain() returns table (step text, affected bigint, error text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_step text;
begin
    perform penstock_data.check_maintenance();
    -- Emptying can't be undone, so everything stored is looked at, unless another session empties a segment at this
    -- moment.
    perform from penstock_data.maintenance m where m.step = 'segments emptied' for update skip locked;
    if found then
        perform penstock_data.check_at_home(null);
    end if;
    for v_step in select m.step from penstock_data.maintenance m where not m.apart order by m.place loop
        return query select v_step, d.affected, d.error from penstock_data.do_step(v_step) d;
    end loop;
end
$$;
comment on function penstock.maintain() is 'Housekeeping in one transaction, but for what needs one of its own.';
