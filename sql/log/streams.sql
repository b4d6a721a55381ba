-- Open the stream of a group, or make it: from then on its topics' logs are kept for it, and list_readers() shows its
-- lag.  Returns the offset where it began, which is the one given when the group was new (null: the end of the log),
-- and the first one ever after.  Its first reader has the group's name if it is alone, all others the topic's behind
-- it.  Readers of topics that the group has read before and that are not named now stay, and keep the log, until they
-- are deleted.
-- Locks: the stream.  Errors: PS001, PS009 topics; PS005, PS015 offset; PS006 another entity, or a reader of that name
-- that is not its own.
-- Roles: consumer, admin
create or replace function penstock.open_stream(
    stream_name text, topic_ids bigint[], start_offset jsonb default null, entity text default 'messages', alone boolean default true
) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_stream penstock_data.streams;
    v_start  jsonb;
begin
    perform penstock_data.check_readable(topic_ids);
    if entity is null or entity not in ('messages', 'receipts') then
        perform penstock_data.fail('PS005', format('a stream reads messages or receipts, not %L', entity));
    end if;
    v_stream := penstock_data.stream_named(stream_name);
    if v_stream.id is null then
        if start_offset is not null then
            perform penstock_data.check_offset(start_offset);
        end if;
        v_start := coalesce(start_offset, penstock.log_offset());
        if entity = 'messages' and not v_start ? 'topics' then
            v_start := v_start || jsonb_build_object('topics', penstock_data.covered('topics', v_start, topic_ids, 0));
        end if;
        insert into penstock_data.streams (name, entity, start_offset) values (stream_name, entity, v_start) on conflict do nothing;
        v_stream := penstock_data.stream_named(stream_name);
    end if;
    perform penstock_data.lock_stream(v_stream.id);
    if v_stream.entity <> entity then
        perform penstock_data.fail('PS006', format('stream %L reads %s, not %s', stream_name, v_stream.entity, entity));
    end if;
    if entity = 'messages' then
        perform penstock_data.fit_readers(v_stream, topic_ids, alone and cardinality(topic_ids) = 1);
    end if;
    return v_stream.start_offset;
end
$$;
comment on function penstock.open_stream(text, bigint[], jsonb, text, boolean) is 'Open or make the stream of a group; returns the offset where it began.';

-- Say that a stream has dealt with everything before an offset.  False when it was there already.
-- Locks: the stream and its readers.  Errors: PS003 unknown stream, PS005, PS015 offset.
-- Roles: consumer, admin
create or replace function penstock.commit_stream(stream_name text, through_offset jsonb) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stream penstock_data.streams := penstock_data.stream_named(stream_name);
begin
    if v_stream.id is null then
        perform penstock_data.fail('PS003', format('stream %L does not exist', stream_name));
    end if;
    perform penstock_data.check_offset(through_offset, v_stream.id);
    perform penstock_data.lock_stream(v_stream.id);
    if penstock_data.stream_offset(v_stream) = through_offset then
        return false;
    end if;
    insert into penstock_data.stream_positions (stream_id, seq, current_offset, committed_at)
    select v_stream.id, coalesce(max(p.seq), 0) + 1, through_offset, penstock_data.clock()
    from penstock_data.stream_positions p where p.stream_id = v_stream.id;
    perform penstock_data.move_readers(v_stream.id, through_offset);
    return true;
end
$$;
comment on function penstock.commit_stream(text, jsonb) is 'Say that a stream has dealt with everything before an offset.';

-- Delete a stream and its readers: the log is no longer kept for it.
-- Errors: PS003 unknown stream.
-- Roles: admin
create or replace function penstock.delete_stream(stream_name text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stream penstock_data.streams := penstock_data.stream_named(stream_name);
begin
    if v_stream.id is null then
        perform penstock_data.fail('PS003', format('stream %L does not exist', stream_name));
    end if;
    delete from penstock_data.readers r using penstock_data.stream_readers b where b.stream_id = v_stream.id and r.id = b.reader_id;
    delete from penstock_data.streams s where s.id = v_stream.id;
    perform penstock_data.release_marks(v_stream.id);
end
$$;
comment on function penstock.delete_stream(text) is 'Delete a stream and its readers.';

-- All streams with how far they are; the lag of each topic is in list_readers().
-- Roles: monitor, admin
create or replace function penstock.list_streams()
returns table (name text, entity text, readers text[], created_at timestamptz, committed_at timestamptz, current_offset jsonb)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select s.name, s.entity,
        array(select r.name from penstock_data.stream_readers b join penstock_data.readers r on r.id = b.reader_id
              where b.stream_id = s.id order by r.name),
        s.created_at,
        (select max(p.committed_at) from penstock_data.stream_positions p where p.stream_id = s.id),
        penstock_data.stream_offset(s)
    from penstock_data.streams s order by s.name
$$;
comment on function penstock.list_streams() is 'All streams with how far they are.';
