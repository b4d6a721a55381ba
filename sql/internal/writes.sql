-- Was this batch of a write published?  Batches of a stream come in order, so a later one answers for all before it.
create or replace function penstock_data.is_written(p_write_id text, p_batch_id bigint) returns boolean
language sql stable as $$
    select exists (select from penstock_data.writes w where w.write_id = p_write_id and w.batch_id >= p_batch_id)
$$;

-- Say what is wrong with staged rows, and that all of them are there.  Returns whether some name a topic of their own.
create or replace function penstock_data.check_stage(p_stage_id bigint, p_parts bigint[], p_count bigint, p_topic text, p_now timestamptz)
returns boolean
language plpgsql set synchronize_seqscans = off as $$
declare
    v_table  text := penstock_data.stage_table(p_stage_id);
    v_most   int := (select s.max_payload_bytes from penstock_data.settings s);
    v_found  bigint;
    v_faulty bigint;
    v_topics bigint;
    v_row    record;
    c_faulty constant text := 's.payload is null or s.topic is null and $2 is null
        or pg_column_size(s.payload) + coalesce(pg_column_size(s.headers), 0) > $3
        or jsonb_typeof(s.headers) <> ''object'' or s.priority not between -1000 and 1000
        or octet_length(s.key) > 1024 or octet_length(s.correlation_id) > 1024 or octet_length(s.tenant_id) > 1024
        or s.deliver_after > $4 + interval ''10 years'' or s.expires_at <= greatest($4, s.deliver_after)';
begin
    execute format('select count(*), count(*) filter (where %s), count(s.topic) from %s s where s.part = any ($1)', c_faulty, v_table)
    into v_found, v_faulty, v_topics using p_parts, p_topic, v_most, p_now;
    if v_found <> p_count then
        perform penstock_data.fail('PS017', format('%s rows were staged, %s are there', p_count, v_found));
    end if;
    if v_faulty > 0 then
        execute format('select * from %s s where s.part = any ($1) and (%s) limit 1', v_table, c_faulty)
        into v_row using p_parts, p_topic, v_most, p_now;
        perform penstock_data.check_message(v_row.payload, v_row.deliver_after, v_row.headers, v_row.key, coalesce(v_row.priority, 0),
            v_row.expires_at, null, v_row.correlation_id, v_row.tenant_id, v_most, p_now);
        perform penstock_data.fail('PS005', 'a row names no topic, and the write has none for all');
    end if;
    return v_topics > 0;
end
$$;

-- Publish staged rows of one topic (p_alone: all rows are of it).  p_default: the topic of rows that name none.
create or replace function penstock_data.publish_staged(
    p_stage_id bigint, p_parts bigint[], p_topic text, p_default text, p_alone boolean, p_now timestamptz
) returns void
language plpgsql set synchronize_seqscans = off set jit = off as $$
declare
    v_topic record;
    v_count bigint;
    v_flags bigint;
begin
    select * into v_topic from penstock_data.topic_named(p_topic);
    if v_topic.ready is not true then
        perform penstock_data.check_topic(p_topic);
    end if;
    execute format('
        with published as (
            insert into penstock_data.messages (
                topic_id, published_at, segment, priority, deliver_after, expires_at, flagged, key, correlation_id, tenant_id, payload, headers)
            select $1, $2, $3, coalesce(s.priority, 0), case when s.deliver_after > $2 then s.deliver_after end, s.expires_at,
                coalesce(s.priority, 0) <> 0 or coalesce(s.deliver_after > $2, false), s.key, s.correlation_id, s.tenant_id, s.payload, s.headers
            from %s s where s.part = any ($4) %s
            returning flagged
        )
        select count(*), count(*) filter (where flagged) from published',
        penstock_data.stage_table(p_stage_id), case when p_alone then '' else 'and coalesce(s.topic, $6) = $5' end)
    into v_count, v_flags
    using v_topic.id, p_now, v_topic.segment, p_parts, p_topic, p_default;
    if v_flags > 0 then
        insert into penstock_data.flags (topic_id) values (v_topic.id) on conflict do nothing;
    end if;
    if v_count > 0 and (v_topic.awaited or v_topic.always <> '{}') then
        perform penstock_data.wake_topic(v_topic.id, v_topic.always, currval('penstock_data.message_id'));
    end if;
end
$$;

-- Publish parts of a stage in the caller's transaction.  p_topic: the topic of rows that name none.
create or replace function penstock_data.publish_parts(p_stage_id bigint, p_parts bigint[], p_count bigint, p_topic text) returns void
language plpgsql set synchronize_seqscans = off as $$
declare
    v_now    timestamptz := penstock_data.clock();
    v_topics text[] := array[p_topic];
    v_topic  text;
begin
    perform penstock_data.check_incarnation();
    if penstock_data.check_stage(p_stage_id, p_parts, p_count, p_topic, v_now) then
        execute format('select array_agg(distinct coalesce(s.topic, $2) order by coalesce(s.topic, $2)) from %s s where s.part = any ($1)',
            penstock_data.stage_table(p_stage_id))
        into v_topics using p_parts, p_topic;
    end if;
    foreach v_topic in array case when p_count > 0 then v_topics else '{}' end loop
        perform penstock_data.publish_staged(p_stage_id, p_parts, v_topic, p_topic, cardinality(v_topics) = 1, v_now);
    end loop;
end
$$;
