-- Stamps of offsets (docs/internals/spark.md).  An offset leaves the database, so a crash or a fail-over may lose what it
-- stands on while the offset stays.  Its stamp {"timeline", "lsn"} says where the WAL was when its snapshot had been taken,
-- and a row of stream_marks remembers that the stamp was given.

-- The timeline that this server writes.
create or replace function penstock_data.timeline() returns int
language sql volatile as $$
    select ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int
$$;

-- Stamp a point whose snapshot was taken in an earlier statement, and remember it.  The transaction of the caller is
-- flushed when it commits, with everything that the snapshot stands on.  p_stream_id 0: no named stream.
create or replace function penstock_data.stamped(p_point jsonb, p_stream_id bigint) returns jsonb
language plpgsql as $$
declare
    c_kept     constant int := 20;      -- so that a lost offset finds a near one to go back to
    v_lsn      pg_lsn := pg_current_wal_insert_lsn();
    v_timeline int := penstock_data.timeline();
begin
    if current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    insert into penstock_data.stream_marks (stream_id, timeline, lsn, point, made_at)
    values (p_stream_id, v_timeline, v_lsn, p_point - '{timeline,lsn}'::text[], penstock_data.clock());
    delete from penstock_data.stream_marks m where m.ctid = any (array(
        select o.ctid from penstock_data.stream_marks o
        where o.timeline = v_timeline and o.stream_id = p_stream_id and o.lsn < (
            select k.lsn from penstock_data.stream_marks k
            where k.timeline = v_timeline and k.stream_id = p_stream_id order by k.lsn desc offset c_kept - 1 limit 1)
        for update skip locked));
    return p_point || jsonb_build_object('timeline', v_timeline, 'lsn', v_lsn);
end
$$;

-- Does this database remember everything that a point stands on?  A mark at the point's place in the WAL or behind it
-- proves it: the WAL is one sequence.  Of a named stream the newest marks are all there, so that a point between two of
-- them which has no mark comes from a history that this server has not had.  A point without a stamp is of an earlier
-- release, or the beginning of the log.
create or replace function penstock_data.is_remembered(p_point jsonb, p_stream_id bigint) returns boolean
language sql stable as $$
    select not p_point ? 'lsn' or exists (
        select from penstock_data.stream_marks m
        where m.timeline = (p_point ->> 'timeline')::int and m.lsn >= (p_point ->> 'lsn')::pg_lsn
          and (m.lsn = (p_point ->> 'lsn')::pg_lsn or p_stream_id = 0
               or not exists (
                   select from penstock_data.stream_marks o
                   where o.timeline = m.timeline and o.stream_id = p_stream_id and o.lsn < (p_point ->> 'lsn')::pg_lsn)))
    or exists (
        select from penstock_data.streams s cross join lateral (values (s.start_offset), (penstock_data.stream_offset(s))) o(known)
        where s.id = p_stream_id and o.known ->> 'timeline' = p_point ->> 'timeline' and o.known ->> 'lsn' = p_point ->> 'lsn')
$$;

-- Refuse a point that stands on transactions which this database does not have.
create or replace function penstock_data.check_remembered(p_point jsonb, p_stream_id bigint) returns void
language plpgsql stable as $$
begin
    if not penstock_data.is_remembered(p_point, p_stream_id) then
        perform penstock_data.fail('PS015', format(
            'the offset was given at %s of timeline %s, of which this database remembers %s: a fail-over or a restore lost what the offset stands on',
            p_point ->> 'lsn', p_point ->> 'timeline',
            coalesce((select 'nothing behind ' || max(m.lsn) from penstock_data.stream_marks m where m.timeline = (p_point ->> 'timeline')::int), 'nothing')));
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
language sql as $$
    update penstock_data.stream_marks set stream_id = 0 where stream_id = p_stream_id
$$;

-- For a log that was stamped anew: no offset given before means anything.
create or replace function penstock_data.forget_marks() returns void
language sql as $$
    delete from penstock_data.stream_marks
$$;
