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

-- The newest offset of a stream.
create or replace function penstock_data.stream_offset(p_stream penstock_data.streams) returns jsonb
language sql stable as $$
    select coalesce(
        (select p.current_offset from penstock_data.stream_positions p where p.stream_id = p_stream.id order by p.seq desc limit 1),
        p_stream.start_offset)
$$;

-- The name of a stream's reader: the stream's own when it has one topic, else with the topic's behind it.
create or replace function penstock_data.stream_reader_name(p_stream text, p_topic text, p_alone boolean) returns text
language sql immutable as $$
    select case when p_alone then p_stream else left(p_stream || ':' || p_topic, 200) end
$$;

-- Give each topic of a stream its reader, at the stream's offset, and drop the readers of topics that it left.
create or replace function penstock_data.fit_readers(p_stream penstock_data.streams, p_topic_ids bigint[], p_alone boolean) returns void
language plpgsql as $$
declare
    v_topic  penstock_data.topics;
    v_reader penstock_data.readers;
    v_name   text;
begin
    delete from penstock_data.readers r using penstock_data.stream_readers b
    where b.stream_id = p_stream.id and r.id = b.reader_id and r.topic_id <> all (p_topic_ids);
    for v_topic in
        select t.* from penstock_data.topics t
        where t.id = any (p_topic_ids) and not exists (
            select from penstock_data.stream_readers b join penstock_data.readers r on r.id = b.reader_id
            where b.stream_id = p_stream.id and r.topic_id = t.id)
        order by t.id
    loop
        v_name := penstock_data.stream_reader_name(p_stream.name, v_topic.name, p_alone);
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
        insert into penstock_data.stream_readers (stream_id, reader_id) values (p_stream.id, v_reader.id);
        perform penstock_data.move_reader(v_reader.id, penstock_data.stream_offset(p_stream));
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
    perform pg_advisory_xact_lock(1346719316, (p_reader_id & 2147483647)::int);
    select * into v_position from penstock_data.reader_position(p_reader_id);
    v_position.reader_id := p_reader_id;
    v_position.seq := coalesce(v_position.seq, 0);
    v_position.window_from := p_offset ->> 'snap';
    v_position.window_to := v_to ->> 'snap';
    v_position.from_id := (p_offset ->> 'next')::bigint;
    v_position.to_id := (v_to ->> 'last')::bigint;
    v_position.next_from_id := (v_to ->> 'next')::bigint;
    v_position.last_id := (p_offset ->> 'id')::bigint;
    v_position.starts_at := (p_offset ->> 'since')::timestamptz;
    v_position.committed_at := penstock_data.clock();
    perform penstock_data.append_reader_position(v_position);
end
$$;
