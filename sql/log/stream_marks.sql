-- Stamps of offsets (docs/internals/spark.md).  An offset leaves the database, so a crash, a fail-over or a restore may
-- lose what it stands on while the offset stays.  Its stamp {"timeline": "1/1791023046123456", "lsn"} says where the
-- WAL was when its snapshot had been taken: the timeline, the run of the server that wrote it, and the place.  A row of
-- stream_marks remembers that the stamp was given.

-- The timeline that this server writes.
create or replace function penstock_data.timeline() returns int
language sql volatile as $$
    select ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
$$;

-- The run of this server: when it was started, in microseconds.  Copies of a server may write the same timeline, at the
-- same places, but each is a server that was started for itself.  A server that recovers from a crash of one of its
-- processes stays the same run: it has all that it flushed.
create or replace function penstock_data.boot() returns bigint
language sql stable as $$
    select (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint
$$;

-- What the stamp of a point says.  boot 0: it was given by an earlier release.
create or replace function penstock_data.stamp_of(p_point jsonb, out timeline int, out boot bigint, out lsn pg_lsn)
language sql immutable as $$
    select split_part(p_point ->> 'timeline', '/', 1)::int,
        coalesce(nullif(split_part(p_point ->> 'timeline', '/', 2), ''), '0')::bigint,
        (p_point ->> 'lsn')::pg_lsn
$$;

-- A stamp as it stands in an offset.
create or replace function penstock_data.stamp(p_timeline int, p_boot bigint, p_lsn pg_lsn) returns jsonb
language sql immutable as $$
    select jsonb_build_object('lsn', p_lsn, 'timeline',
        case when p_boot = 0 then to_jsonb(p_timeline) else to_jsonb(p_timeline || '/' || p_boot) end)
$$;

-- Stamp a point whose snapshot was taken in an earlier statement, and remember it.  The transaction of the caller is
-- flushed when it commits, with everything that the snapshot stands on.  p_stream_id 0: no named stream.
-- Marks are read from the newest on: below the oldest lie those that were deleted, as long as a held snapshot keeps
-- them.
create or replace function penstock_data.stamped(p_point jsonb, p_stream_id bigint) returns jsonb
language plpgsql
set enable_seqscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    c_kept     constant int := 20;      -- so that a lost offset finds a near one to go back to
    v_lsn      pg_lsn := pg_current_wal_insert_lsn();
    v_timeline int := penstock_data.timeline();
    v_boot     bigint := penstock_data.boot();
    v_known    boolean;
begin
    if current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    v_known := (select true from penstock_data.stream_marks m where m.boot = v_boot order by m.lsn desc limit 1);
    insert into penstock_data.stream_marks (stream_id, timeline, boot, lsn, point, made_at)
    values (p_stream_id, v_timeline, v_boot, v_lsn, p_point - '{timeline,lsn}'::text[], penstock_data.clock());
    if v_known is null then
        perform penstock_data.thin_marks();
    end if;
    -- One for one, or sessions that meet would leave more and more: the oldest of the newest 21 that no other session
    -- deletes.  Never the newest.
    delete from penstock_data.stream_marks m where m.ctid = any (array(
        select o.ctid from penstock_data.stream_marks o
        where o.boot = v_boot and o.stream_id = p_stream_id
          and o.lsn >= (
            select k.lsn from penstock_data.stream_marks k
            where k.boot = v_boot and k.stream_id = p_stream_id order by k.lsn desc offset c_kept limit 1)
          and o.lsn < (
            select k.lsn from penstock_data.stream_marks k
            where k.boot = v_boot and k.stream_id = p_stream_id order by k.lsn desc limit 1)
        order by o.lsn limit 1
        for update skip locked));
    return p_point || penstock_data.stamp(v_timeline, v_boot, v_lsn);
end
$$;

-- Delete marks that prove nothing more.  Of the newest five runs twenty of each stream are kept, so that the way back
-- is short after a fail-over; of those before only the newest mark, which proves as much; of a thousand runs at most,
-- so that older offsets are refused.  Marks of an earlier release (boot 0) stay: no more are made.
create or replace function penstock_data.thin_marks() returns void
language sql as $$
    with ranked as (
        select m.ctid as place, m.boot,
            row_number() over (partition by m.boot, m.stream_id order by m.lsn desc) as of_stream,
            row_number() over (partition by m.boot order by m.lsn desc) as of_run,
            dense_rank() over (order by m.boot desc) as age
        from penstock_data.stream_marks m where m.boot > 0
    )
    delete from penstock_data.stream_marks m where m.ctid = any (array(
        select o.ctid from penstock_data.stream_marks o
        where o.ctid = any (array(
            select r.place from ranked r
            where r.of_run > 1 and (r.of_stream > 20 or r.age > 5) or r.age > 1000 and r.boot <> penstock_data.boot()))
        for update skip locked))
$$;

-- Does this database remember everything that a point stands on?  A mark of the same run at the point's place in the
-- WAL or behind it proves it: a run writes one sequence, and nothing else writes it on.  A point without a stamp is of
-- an earlier release, or the beginning of the log.
create or replace function penstock_data.is_remembered(p_point jsonb, p_stream_id bigint) returns boolean
language plpgsql stable
set enable_seqscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_stamp record := penstock_data.stamp_of(p_point);
begin
    if v_stamp.lsn is null or (
        select m.lsn >= v_stamp.lsn from penstock_data.stream_marks m
        where m.boot = v_stamp.boot and m.timeline = v_stamp.timeline order by m.lsn desc limit 1)
        and (v_stamp.boot > 0 or penstock_data.is_own(v_stamp.timeline, v_stamp.lsn, p_stream_id))
    then
        return true;
    end if;
    return exists (
        select from penstock_data.streams s cross join lateral (values (s.start_offset), (penstock_data.stream_offset(s))) o(known)
        where s.id = p_stream_id and o.known ->> 'timeline' = p_point ->> 'timeline' and o.known ->> 'lsn' = p_point ->> 'lsn');
end
$$;

-- May a stamp of an earlier release be this stream's?  It does not say which run gave it.  But of a named stream the
-- newest marks are all there, so that a point between two of them which has no mark comes from a history that this
-- server has not had.
create or replace function penstock_data.is_own(p_timeline int, p_lsn pg_lsn, p_stream_id bigint) returns boolean
language sql stable as $$
    select p_stream_id = 0
        or exists (
            select from penstock_data.stream_marks m where m.boot = 0 and m.timeline = p_timeline and m.lsn = p_lsn)
        or not exists (
            select from penstock_data.stream_marks m
            where m.boot = 0 and m.timeline = p_timeline and m.stream_id = p_stream_id and m.lsn < p_lsn)
$$;

-- Refuse a point that stands on transactions which this database does not have.
create or replace function penstock_data.check_remembered(p_point jsonb, p_stream_id bigint) returns void
language plpgsql stable as $$
declare
    v_stamp record;
begin
    if not penstock_data.is_remembered(p_point, p_stream_id) then
        v_stamp := penstock_data.stamp_of(p_point);
        perform penstock_data.fail('PS015', format(
            'the offset was given at %s of timeline %s%s, of which this database remembers %s: a fail-over or a restore lost what the offset stands on',
            v_stamp.lsn, v_stamp.timeline,
            case when v_stamp.boot > 0 then ' by the server started at ' || to_timestamp(v_stamp.boot / 1000000) else '' end,
            coalesce((
                select 'nothing behind ' || max(m.lsn) from penstock_data.stream_marks m
                where m.boot = v_stamp.boot and m.timeline = v_stamp.timeline), 'nothing')));
    end if;
end
$$;

-- Does the second snapshot see everything that the first one sees?
create or replace function penstock_data.is_within(p_first pg_snapshot, p_second pg_snapshot) returns boolean
language sql immutable as $$
    select pg_snapshot_xmax(p_first) <= pg_snapshot_xmax(p_second) and not exists (
        select from pg_snapshot_xip(p_second) as x(xid) where pg_visible_in_snapshot(x.xid, p_first))
$$;

-- The marks of a stream that is gone prove as much as before.
create or replace function penstock_data.release_marks(p_stream_id bigint) returns void
language plpgsql as $$
begin
    update penstock_data.stream_marks set stream_id = 0 where stream_id = p_stream_id;
    perform penstock_data.thin_marks();
end
$$;

-- For a log that was stamped anew: no offset given before means anything.
create or replace function penstock_data.forget_marks() returns void
language sql as $$
    delete from penstock_data.stream_marks
$$;
