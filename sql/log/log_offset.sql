-- An offset of the log: where it ends now, or with at_beginning where it begins.  Everything published before this call
-- and committed is behind the end, everything else before it.  since: messages published before it are passed over;
-- floors: {"topic": id}, messages of that topic with a lower id are.  stream_name: the stream that will use it.
-- The offset may be used when the transaction of this call has committed: then all that it stands on is on the disk.
-- Errors: PS009 stream, PS010 rebase needed, PS011 standby.
-- Roles: consumer, admin
create or replace function penstock.log_offset(
    at_beginning boolean default false, since timestamptz default null, floors jsonb default null, stream_name text default null
) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_offset jsonb;
begin
    perform penstock_data.check_readable('{}');
    if at_beginning then
        v_offset := jsonb_build_object('snap', penstock_data.before_everything(), 'next', 0, 'last', 0,
            -- What is gone already was never this stream's to read.
            'emptied', coalesce((select max(e.xid::text::numeric) from penstock_data.emptied e)::text, '0'));
    else
        v_offset := penstock_data.point_now(0);
        v_offset := penstock_data.stamped(v_offset, penstock_data.stream_id(stream_name));
    end if;
    return jsonb_strip_nulls(
        jsonb_build_object('cluster', penstock_data.incarnation_name(), 'since', since, 'floors', floors) || v_offset);
end
$$;
comment on function penstock.log_offset(boolean, timestamptz, jsonb, text) is 'An offset of the log for streams: its end now, or its beginning.';
