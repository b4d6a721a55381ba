-- Windows of two snapshots (docs/internals/windows.md).

-- The current snapshot, with the caller's own transaction counted as unfinished: what it publishes after this moment
-- must not pass for read.
create or replace function penstock_data.snapshot_without_me(p_snapshot pg_snapshot) returns pg_snapshot
language plpgsql stable as $$
declare
    v_me xid8 := pg_current_xact_id_if_assigned();
begin
    if v_me is null or v_me >= pg_snapshot_xmax(p_snapshot) or not pg_visible_in_snapshot(v_me, p_snapshot) then
        return p_snapshot;
    end if;
    return (
        select format('%s:%s:%s', min(x.xid::text::numeric), pg_snapshot_xmax(p_snapshot), string_agg(x.xid::text, ',' order by x.xid))
        from (select pg_snapshot_xip(p_snapshot) as xid union select v_me) x
    )::pg_snapshot;
end
$$;

-- Transactions that were open in the first snapshot and are finished in the second: the late ones of a window, in order.
create or replace function penstock_data.late_xids(p_from pg_snapshot, p_to pg_snapshot) returns xid8[]
language sql immutable as $$
    select array(
        select x.xid from pg_snapshot_xip(p_from) as x(xid)
        where pg_visible_in_snapshot(x.xid, p_to)
        order by x.xid)
$$;

-- Transactions that were open in a snapshot.
create or replace function penstock_data.open_xids(p_snapshot pg_snapshot) returns xid8[]
language sql immutable as $$
    select array(select pg_snapshot_xip(p_snapshot))
$$;

-- A snapshot that has seen nothing.
create or replace function penstock_data.before_everything() returns pg_snapshot
language sql immutable as $$
    select '3:3:'::pg_snapshot
$$;

-- The highest message id drawn so far.  Read it before a snapshot, and every message the snapshot does not see and
-- whose transaction began later has a higher id; read it after, and every message it sees has this id at most.
create or replace function penstock_data.last_message_id() returns bigint
language sql volatile as $$
    select case when s.is_called then s.last_value else 0 end from penstock_data.message_id s
$$;
