-- Was this batch of a write published?  Batches of a stream come in order, so a later one answers for all before it.
create or replace function penstock_data.is_written(p_write_id text, p_batch_id bigint) returns boolean
language sql stable as $$
    select exists (select from penstock_data.writes w where w.write_id = p_write_id and w.batch_id >= p_batch_id)
$$;

-- What must not be true of a staged row s, as a condition; null is fine.  $1 parts, $2 the topic of rows that name
-- none, $3 the largest payload, $4 now.
create or replace function penstock_data.staged_fault() returns text
language sql immutable as $$
    select 's.payload is null or s.topic is null and $2 is null
        or pg_column_size(s.payload) + coalesce(pg_column_size(s.headers), 0) > $3
        or jsonb_typeof(s.headers) <> ''object'' or s.priority not between -1000 and 1000
        or octet_length(s.key) > 1024 or octet_length(s.correlation_id) > 1024 or octet_length(s.tenant_id) > 1024
        or s.deliver_after > $4 + interval ''10 years'' or s.expires_at <= greatest($4, s.deliver_after)'
$$;

-- Say what is wrong with staged rows: some are missing, or one cannot be published.
create or replace function penstock_data.refuse_stage(p_stage_id bigint, p_parts bigint[], p_count bigint, p_topic text, p_now timestamptz)
returns void
language plpgsql as $$
declare
    v_table text := penstock_data.stage_table(p_stage_id);
    v_most  int := (select s.max_payload_bytes from penstock_data.settings s);
    v_found bigint;
    v_row   record;
begin
    execute format('select count(*) from %s s where s.part = any ($1)', v_table) into v_found using p_parts;
    if v_found <> p_count then
        perform penstock_data.fail('PS017', format('%s rows were staged, %s are there', p_count, v_found));
    end if;
    execute format('select * from %s s where s.part = any ($1) and (%s) limit 1', v_table, penstock_data.staged_fault())
    into v_row using p_parts, p_topic, v_most, p_now;
    perform penstock_data.check_message(v_row.payload, v_row.deliver_after, v_row.headers, v_row.key, coalesce(v_row.priority, 0),
        v_row.expires_at, null, v_row.correlation_id, v_row.tenant_id, v_most, p_now);
    perform penstock_data.fail('PS005', 'a row names no topic, and the write has none for all');
end
$$;

-- Publish staged rows of one topic, those that cannot be published left out.  p_default: the topic of rows that name
-- none.  Returns how many.  One pass over the stage, and nothing handed back row by row: a write waits for this one
-- statement.
create or replace function penstock_data.publish_staged(
    p_stage_id bigint, p_parts bigint[], p_topic text, p_default text, p_now timestamptz
) returns bigint
language plpgsql set synchronize_seqscans = off set jit = off as $$
declare
    v_topic record;
    v_count bigint;
begin
    select * into v_topic from penstock_data.topic_named(p_topic);
    if v_topic.ready is not true then
        perform penstock_data.check_topic(p_topic);
    end if;
    execute format('
        insert into penstock_data.messages (
            topic_id, published_at, segment, priority, deliver_after, expires_at, flagged, key, correlation_id, tenant_id, payload, headers)
        select $5, $4, $6, coalesce(s.priority, 0), case when s.deliver_after > $4 then s.deliver_after end, s.expires_at,
            coalesce(s.priority, 0) <> 0 or coalesce(s.deliver_after > $4, false), s.key, s.correlation_id, s.tenant_id, s.payload, s.headers
        from %s s where s.part = any ($1) and coalesce(s.topic, $2) = $7 and (%s) is not true',
        penstock_data.stage_table(p_stage_id), penstock_data.staged_fault())
    using p_parts, p_default, v_topic.max_payload_bytes, p_now, v_topic.id, v_topic.segment, p_topic;
    get diagnostics v_count = row_count;
    if exists (
        select from penstock_data.messages m
        where m.segment = v_topic.segment and m.topic_id = v_topic.id and m.xid = pg_current_xact_id() and m.flagged
    ) then
        insert into penstock_data.flags (topic_id) values (v_topic.id) on conflict do nothing;
    end if;
    if v_count > 0 and (v_topic.awaited or v_topic.always <> '{}') then
        perform penstock_data.wake_topic(v_topic.id, v_topic.always, currval('penstock_data.message_id'));
    end if;
    return v_count;
end
$$;

-- Publish parts of a stage in the caller's transaction.  p_topic: the topic of rows that name none.
create or replace function penstock_data.publish_parts(p_stage_id bigint, p_parts bigint[], p_count bigint, p_topic text) returns void
language plpgsql as $$
declare
    v_now   timestamptz := penstock_data.clock();
    v_count bigint := 0;
    v_topic text;
begin
    perform penstock_data.check_incarnation();
    if p_topic is not null and cardinality(p_parts) > 0 then
        v_count := penstock_data.publish_staged(p_stage_id, p_parts, p_topic, p_topic, v_now);
    end if;
    -- Most writes have one topic, and are done.
    if v_count < p_count then
        for v_topic in
            execute format('select distinct s.topic from %s s where s.part = any ($1) and s.topic is distinct from $2 and s.topic is not null order by 1',
                penstock_data.stage_table(p_stage_id))
            using p_parts, p_topic
        loop
            v_count := v_count + penstock_data.publish_staged(p_stage_id, p_parts, v_topic, p_topic, v_now);
        end loop;
    end if;
    if v_count <> p_count then
        perform penstock_data.refuse_stage(p_stage_id, p_parts, p_count, p_topic, v_now);
    end if;
end
$$;
