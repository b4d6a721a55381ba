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

-- Transactions that were open in the first snapshot and are finished in the second: the late ones of a window, in
-- order.
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

-- The highest message id drawn so far.
create or replace function penstock_data.last_message_id() returns bigint
language plpgsql volatile as $$
begin
    return (select case when s.is_called then s.last_value else 0 end from penstock_data.message_id s);
end
$$;

-- A transaction id that no transaction had before this call: the id of the caller's transaction if this call assigns
-- it, else the id of a subtransaction, which is rolled back.
create or replace function penstock_data.fresh_xid() returns xid8
language plpgsql as $$
declare
    c_epoch constant bigint := 4294967296;
    v_me    bigint := pg_current_xact_id_if_assigned()::text::bigint;
    v_sub   bigint;
begin
    if v_me is null then
        return pg_current_xact_id();
    end if;
    begin
        insert into penstock_data.waiting (topic_id, until, channel) values (0, '-infinity', '')
        returning xmin::text::bigint into v_sub;
        raise exception 'undo' using errcode = 'PS000';
    exception when sqlstate 'PS000' then
        v_sub := v_me / c_epoch * c_epoch + v_sub;
    end;
    return (v_sub + case when v_sub < v_me then c_epoch else 0 end)::text::xid8;
end
$$;

-- Windows in the order of ids need a lower bound for new ids: every message whose transaction is not below the xmax of
-- p_snapshot gets a higher id than p_id.  The xmax alone does not guarantee this, because transactions newer than the
-- last finished one may be running already.  So the xmax is raised to a transaction id that was assigned after the id
-- was read.  The transactions in between count as unfinished, so the snapshot sees the same as before.
-- p_id: the last id, read before the caller had a transaction id; null when it had one.  p_floor: what held before.
create or replace function penstock_data.bound_window(inout p_snapshot pg_snapshot, inout p_id bigint, p_floor bigint)
language plpgsql as $$
declare
    c_most constant int := 1000;        -- else a long list would be kept, for a caller with an old snapshot
    v_xmax bigint := pg_snapshot_xmax(p_snapshot)::text::bigint;
    v_next bigint;
begin
    if p_id is not null then
        v_next := pg_current_xact_id()::text::bigint;
    else
        p_id := penstock_data.last_message_id();
        v_next := penstock_data.fresh_xid()::text::bigint;
    end if;
    if v_next - v_xmax > c_most then
        p_id := p_floor;
    elsif v_next > v_xmax then
        p_snapshot := (
            select format('%s:%s:%s', pg_snapshot_xmin(p_snapshot), v_next, string_agg(x.xid::text, ',' order by x.xid))
            from (
                select xid::text::bigint from pg_snapshot_xip(p_snapshot) xid
                union all select generate_series(v_xmax, v_next - 1)
            ) x(xid))::pg_snapshot;
    end if;
end
$$;
