-- Is something wrong with a message?  Part of the calling statement, so that a faultless message costs no call.
create or replace function penstock_data.is_faulty(
    p_payload jsonb, p_deliver_after timestamptz, p_headers jsonb, p_key text, p_priority int, p_expires_at timestamptz,
    p_dedupe_key text, p_correlation_id text, p_tenant_id text, p_max_bytes int, p_now timestamptz
) returns boolean
language sql stable as $$
    select (
        pg_column_size(p_payload) + coalesce(pg_column_size(p_headers), 0) <= p_max_bytes and p_priority between -1000 and 1000
        and coalesce(jsonb_typeof(p_headers) = 'object', true) and coalesce(octet_length(p_key) <= 1024, true)
        and coalesce(octet_length(p_dedupe_key) <= 1024, true) and coalesce(octet_length(p_correlation_id) <= 1024, true)
        and coalesce(octet_length(p_tenant_id) <= 1024, true) and coalesce(p_deliver_after <= p_now + interval '10 years', true)
        and coalesce(p_expires_at > greatest(p_now, p_deliver_after), true)) is not true
$$;

-- Say what is wrong with a message.
create or replace function penstock_data.check_message(
    p_payload jsonb, p_deliver_after timestamptz, p_headers jsonb, p_key text, p_priority int, p_expires_at timestamptz,
    p_dedupe_key text, p_correlation_id text, p_tenant_id text, p_max_bytes int, p_now timestamptz
) returns void
language plpgsql as $$
begin
    if p_payload is null then
        perform penstock_data.fail('PS005', 'payload must not be null; the JSON null is ''null''::jsonb');
    end if;
    if pg_column_size(p_payload) + coalesce(pg_column_size(p_headers), 0) > p_max_bytes then
        perform penstock_data.fail('PS007', format('payload and headers have %s bytes, at most %s are allowed',
            pg_column_size(p_payload) + coalesce(pg_column_size(p_headers), 0), p_max_bytes));
    end if;
    if jsonb_typeof(p_headers) <> 'object' then
        perform penstock_data.fail('PS005', format('headers must be a JSON object, not %s', jsonb_typeof(p_headers)));
    end if;
    perform penstock_data.check_range('priority', p_priority, -1000, 1000);
    perform penstock_data.check_text('key', p_key);
    perform penstock_data.check_text('dedupe_key', p_dedupe_key);
    perform penstock_data.check_text('correlation_id', p_correlation_id);
    perform penstock_data.check_text('tenant_id', p_tenant_id);
    if p_deliver_after > p_now + interval '10 years' then
        perform penstock_data.fail('PS005', format('deliver_after must be within ten years, not %s', p_deliver_after));
    end if;
    if p_expires_at <= greatest(p_now, p_deliver_after) then
        perform penstock_data.fail('PS005', format('expires_at %s is past, or not after deliver_after: the message could never be delivered', p_expires_at));
    end if;
end
$$;

-- Remember a dedupe key for its window.  Returns the first message's id when the key was seen within it, else null;
-- then the key stands for p_message_id.  Waits for a concurrent publisher of the same key.
create or replace function penstock_data.claim_dedupe_key(
    p_topic_id bigint, p_key text, p_message_id bigint, p_window interval, p_now timestamptz
) returns bigint
language plpgsql as $$
declare
    v_first bigint;
begin
    perform penstock_data.check_duration('dedupe_window', p_window, interval '100 years');
    insert into penstock_data.dedupe_keys as d (topic_id, dedupe_key, message_id, until)
    values (p_topic_id, p_key, p_message_id, p_now + p_window)
    on conflict (topic_id, dedupe_key) do update set message_id = excluded.message_id, until = excluded.until
        where d.until <= p_now;
    if found then
        return null;
    end if;
    select d.message_id into v_first from penstock_data.dedupe_keys d
    where d.topic_id = p_topic_id and d.dedupe_key = p_key;
    return v_first;
end
$$;

-- An argument of publish_messages: one element for each payload, or a single one for all.
create or replace function penstock_data.one_for_all(p_name text, p_values anyarray, p_count int) returns anyarray
language plpgsql immutable as $$
begin
    if p_values is null or cardinality(p_values) = p_count then
        return p_values;
    elsif cardinality(p_values) = 1 then
        return array_fill(p_values[1], array[p_count]);
    end if;
    perform penstock_data.fail('PS005', format('%s has %s elements for %s payloads; give one for each, or a single one for all',
        p_name, cardinality(p_values), p_count));
end
$$;

-- Check many messages; the error of the first faulty one is raised.  One pass that looks for a fault, then a second
-- that names it, so that faultless messages cost little.
create or replace function penstock_data.check_messages(
    p_payloads jsonb[], p_deliver_after timestamptz[], p_headers jsonb[], p_keys text[], p_priorities int[],
    p_expires_at timestamptz[], p_correlation_ids text[], p_tenant_ids text[], p_max_bytes int, p_now timestamptz
) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_row record;
begin
    for v_row in
        select u.*
        from unnest(p_payloads, p_deliver_after, p_headers, p_keys, p_priorities, p_expires_at, p_correlation_ids, p_tenant_ids)
            as u(payload, delay, header, key, priority, expiry, correlation, tenant)
        where penstock_data.is_faulty(u.payload, u.delay, u.header, u.key, coalesce(u.priority, 0), u.expiry, null, u.correlation, u.tenant,
            p_max_bytes, p_now)
        limit 1
    loop
        perform penstock_data.check_message(v_row.payload, v_row.delay, v_row.header, v_row.key, coalesce(v_row.priority, 0),
            v_row.expiry, null, v_row.correlation, v_row.tenant, p_max_bytes, p_now);
    end loop;
end
$$;
