-- A stream that exists and that the caller may use, or null.
create or replace function penstock_data.stream_named(p_name text) returns penstock_data.streams
language plpgsql stable as $$
declare
    v_stream penstock_data.streams;
begin
    perform penstock_data.check_name('stream', p_name);
    select * into v_stream from penstock_data.streams s where s.name = p_name;
    if v_stream.id is not null and not penstock_data.is_permitted('{}') and exists (
        select from penstock_data.stream_readers b join penstock_data.readers r on r.id = b.reader_id
        where b.stream_id = v_stream.id and not penstock_data.is_permitted(r.consumers)
    ) then
        perform penstock_data.fail('PS009', format('role %I may not use stream %L', penstock_data.caller(), p_name));
    end if;
    return v_stream;
end
$$;

-- The id of the stream whose offset is asked for; 0 when it has no name, or none of that name was opened.
create or replace function penstock_data.stream_id(p_name text) returns bigint
language plpgsql stable as $$
begin
    return case when p_name is null then 0 else coalesce((penstock_data.stream_named(p_name)).id, 0) end;
end
$$;

-- Changes of a stream take turns: the lock of its row, held until the transaction ends.
create or replace function penstock_data.lock_stream(p_stream_id bigint) returns void
language sql as $$
    select from penstock_data.streams s where s.id = p_stream_id for no key update
$$;

-- The newest offset of a stream.
create or replace function penstock_data.stream_offset(p_stream penstock_data.streams) returns jsonb
language sql stable as $$
    select coalesce(
        (select p.current_offset from penstock_data.stream_positions p where p.stream_id = p_stream.id order by p.seq desc limit 1),
        p_stream.start_offset)
$$;

-- The name of a stream's reader: the stream's own for the first topic when it is alone, else with the topic's behind
-- it.
create or replace function penstock_data.stream_reader_name(p_stream text, p_topic text, p_alone boolean) returns text
language sql immutable as $$
    select case when p_alone then p_stream else left(p_stream || ':' || p_topic, 200) end
$$;

-- Give each topic of a stream its reader: at the stream's offset when that stands for the topic, else at the beginning
-- of the log, until it has caught up.  The readers of topics that are not read now stay where they are: they keep the
-- log for the day when the topic is read again, until they are deleted.
create or replace function penstock_data.fit_readers(p_stream penstock_data.streams, p_topic_ids bigint[], p_alone boolean) returns void
language plpgsql as $$
declare
    v_offset  jsonb := penstock_data.stream_offset(p_stream);
    v_covered jsonb := penstock_data.covered('topics', v_offset, p_topic_ids, p_stream.id);
    v_topic   penstock_data.topics;
    v_reader  penstock_data.readers;
    v_name    text;
begin
    for v_topic in
        select t.* from penstock_data.topics t
        where t.id = any (p_topic_ids) and not exists (
            select from penstock_data.stream_readers b join penstock_data.readers r on r.id = b.reader_id
            where b.stream_id = p_stream.id and r.topic_id = t.id)
        order by t.id
    loop
        v_name := penstock_data.stream_reader_name(p_stream.name, v_topic.name,
            p_alone and not exists (select from penstock_data.stream_readers b where b.stream_id = p_stream.id));
        v_reader := null;
        select * into v_reader from penstock_data.readers r where r.name = v_name;
        if found and (v_reader.topic_id <> v_topic.id or exists (select from penstock_data.stream_readers b where b.reader_id = v_reader.id)) then
            perform penstock_data.fail('PS006', format('reader %L exists and is not of this stream', v_name));
        elsif v_reader.id is null then
            if not penstock_data.is_permitted('{}') then
                perform penstock_data.fail('PS009', format('role %I may not create reader %L on topic %L', penstock_data.caller(), v_name, v_topic.name));
            end if;
            insert into penstock_data.readers as r (name, topic_id) values (v_name, v_topic.id) returning r.* into v_reader;
        elsif not penstock_data.is_permitted(v_reader.consumers) then
            perform penstock_data.fail('PS009', format('role %I may not use reader %L', penstock_data.caller(), v_name));
        end if;
        insert into penstock_data.stream_readers (stream_id, reader_id, covered)
        values (p_stream.id, v_reader.id, v_covered ? v_topic.name);
        perform penstock_data.move_reader(v_reader.id, case
            when v_covered ? v_topic.name then v_offset
            else jsonb_build_object('snap', penstock_data.before_everything(), 'next', 0, 'last', 0, 'since', v_offset -> 'since') end);
    end loop;
end
$$;

-- Put the readers of a stream to where an offset stands.  Those of topics that it left, or has not reached, stay.
create or replace function penstock_data.move_readers(p_stream_id bigint, p_offset jsonb) returns void
language plpgsql as $$
declare
    v_covered  jsonb := penstock_data.covered('topics', p_offset, '{}', p_stream_id);
    v_catch_up jsonb := p_offset -> 'catch_up';
    v_reader   record;
begin
    for v_reader in
        select b.reader_id, t.id as topic_id, t.name, b.covered
        from penstock_data.stream_readers b
        join penstock_data.readers r on r.id = b.reader_id
        join penstock_data.topics t on t.id = r.topic_id
        where b.stream_id = p_stream_id order by b.reader_id
    loop
        if v_covered ? v_reader.name then
            perform penstock_data.move_reader(v_reader.reader_id, p_offset);
            update penstock_data.stream_readers b set covered = true
            where b.stream_id = p_stream_id and b.reader_id = v_reader.reader_id and not b.covered;
        elsif (v_catch_up ->> 'of')::bigint = v_reader.topic_id then
            perform penstock_data.move_reader(v_reader.reader_id, (v_catch_up -> 'from') || jsonb_build_object(
                'since', p_offset -> 'since', 'to', p_offset, 'id', v_catch_up -> 'id'));
        end if;
    end loop;
end
$$;

-- Put a reader to the position that an offset stands for.
create or replace function penstock_data.move_reader(p_reader_id bigint, p_offset jsonb) returns void
language plpgsql as $$
declare
    v_position penstock_data.reader_positions;
    v_to       jsonb := coalesce(p_offset -> 'to', p_offset);
begin
    perform penstock_data.lock_reader(p_reader_id);
    select * into v_position from penstock_data.reader_position(p_reader_id);
    v_position.reader_id := p_reader_id;
    v_position.seq := coalesce(v_position.seq, 0);
    v_position.window_from := p_offset ->> 'snap';
    v_position.window_to := v_to ->> 'snap';
    v_position.from_id := (p_offset ->> 'next')::bigint;
    v_position.to_id := (v_to ->> 'last')::bigint;
    v_position.next_from_id := (v_to ->> 'next')::bigint;
    v_position.last_id := (p_offset ->> 'id')::bigint;
    v_position.given_id := null;
    v_position.starts_at := (p_offset ->> 'since')::timestamptz;
    v_position.committed_at := penstock_data.clock();
    perform penstock_data.append_reader_position(v_position);
end
$$;
