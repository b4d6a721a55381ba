-- The way back from an offset that was refused, because a fail-over or a restore lost what it stands on: an offset at
-- the newest point that this database shares with the offset's history.  That is the newest mark that the offset had
-- passed, as far as this database has marks of the run of the server that gave the offset; else where the stream of
-- that name is committed, else the beginning of the log.  What lies between that point and the offset comes again;
-- nothing is passed over.  An offset that is not lost is returned as it is.
-- Errors: PS005 no offset, PS009 stream, PS010, PS011; PS015 when the offset is of another cluster.
-- Roles: consumer, admin
create or replace function penstock.safe_offset(lost_offset jsonb, stream_name text default null) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stream_id bigint := penstock_data.stream_id(stream_name);
    v_list      text := case when lost_offset ? 'queues' then 'queues' else 'topics' end;
    v_parked    jsonb := coalesce(lost_offset -> 'parked', '{}');
    v_committed jsonb := (select penstock_data.stream_offset(s) from penstock_data.streams s where s.id = v_stream_id);
    v_stamp     record;
    v_shared    pg_lsn;
    v_point     jsonb;
begin
    perform penstock_data.check_readable('{}');
    begin
        perform penstock_data.check_offset(lost_offset, v_stream_id);
        return lost_offset;
    exception when sqlstate 'PS015' then
        if lost_offset ->> 'cluster' is distinct from penstock_data.incarnation_name() then
            raise;
        end if;
    end;
    v_stamp := penstock_data.stamp_of(lost_offset);
    -- Up to the newest mark of that run both histories are the same.  Marks behind it are of another one, whatever
    -- their timeline; so are all where there is none.
    select max(m.lsn) into v_shared
    from penstock_data.stream_marks m
    where m.boot = v_stamp.boot and m.timeline = v_stamp.timeline and m.lsn <= v_stamp.lsn;
    select m.point || penstock_data.stamp(m.timeline, m.boot, m.lsn) into v_point
    from penstock_data.stream_marks m
    where penstock_data.is_within((m.point ->> 'snap')::pg_snapshot, (lost_offset ->> 'snap')::pg_snapshot)
      and (m.point ? 'last' or v_list = 'queues')
      and m.lsn <= v_shared
    order by m.lsn desc limit 1;
    if v_committed is not null
       and penstock_data.is_within((v_committed ->> 'snap')::pg_snapshot, (lost_offset ->> 'snap')::pg_snapshot)
       and (v_point is null or penstock_data.is_within((v_point ->> 'snap')::pg_snapshot, (v_committed ->> 'snap')::pg_snapshot)) then
        return v_committed;
    end if;
    v_point := coalesce(v_point, jsonb_build_object('snap', penstock_data.before_everything(), 'next', 0, 'last', 0));
    -- A topic that was left after the common point, or had begun to catch up, comes again from the beginning.
    select coalesce(jsonb_object_agg(e.key, e.value), '{}') into v_parked
    from jsonb_each(v_parked) e where penstock_data.is_remembered(e.value, v_stream_id);
    return penstock_data.offset_behind(
        case when lost_offset ? v_list then penstock_data.with_members(lost_offset, v_list, lost_offset -> v_list, v_parked, null)
             else lost_offset - '{catch_up}'::text[] end,
        v_point, null);
end
$$;
comment on function penstock.safe_offset(jsonb, text) is 'The newest offset before one that was lost which this database still has.';
