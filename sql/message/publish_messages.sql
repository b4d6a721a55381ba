-- Append many messages to a topic in one statement, in the caller's transaction.  Every other argument is an array: one
-- element for each payload, or a single one that holds for all.  Returns the ids in the order of the payloads.
-- Errors: as publish_message; with any error nothing is published.
-- Roles: publisher, admin
create or replace function penstock.publish_messages(
    topic_name text, payloads jsonb[], deliver_after timestamptz[] default null, headers jsonb[] default null,
    keys text[] default null, priorities int[] default null, expires_at timestamptz[] default null,
    dedupe_keys text[] default null, correlation_ids text[] default null, tenant_ids text[] default null,
    dedupe_window interval default null
) returns setof bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
    v_topic record;
    v_now   timestamptz;
    v_count int := cardinality(payloads);
    v_row   record;
    v_xid   xid8 := pg_current_xact_id();       -- assigned before the look for waiting consumers: see publish_message
begin
    select * into v_topic from penstock_data.topic_named(topic_name);
    if v_topic.ready is not true then
        perform penstock_data.check_topic(topic_name);
    end if;
    if v_count is null then
        perform penstock_data.fail('PS005', 'payloads must be an array of jsonb, not null');
    end if;
    v_now := clock_timestamp() + v_topic.clock_shift;
    deliver_after := penstock_data.one_for_all('deliver_after', deliver_after, v_count);
    headers := penstock_data.one_for_all('headers', headers, v_count);
    keys := penstock_data.one_for_all('keys', keys, v_count);
    priorities := penstock_data.one_for_all('priorities', priorities, v_count);
    expires_at := penstock_data.one_for_all('expires_at', expires_at, v_count);
    dedupe_keys := penstock_data.one_for_all('dedupe_keys', dedupe_keys, v_count);
    correlation_ids := penstock_data.one_for_all('correlation_ids', correlation_ids, v_count);
    tenant_ids := penstock_data.one_for_all('tenant_ids', tenant_ids, v_count);

    if dedupe_keys is not null then
        for v_row in
            select * from unnest(payloads, publish_messages.deliver_after, publish_messages.headers, keys, priorities,
                publish_messages.expires_at, dedupe_keys, correlation_ids, tenant_ids)
                as u(payload, delay, header, key, priority, expiry, dedupe, correlation, tenant)
        loop
            return next penstock.publish_message(topic_name, v_row.payload, v_row.delay, v_row.header, v_row.key,
                coalesce(v_row.priority, 0), v_row.expiry, v_row.dedupe, v_row.correlation, v_row.tenant, dedupe_window);
        end loop;
        return;
    end if;

    perform penstock_data.check_messages(payloads, publish_messages.deliver_after, publish_messages.headers, keys, priorities,
        publish_messages.expires_at, correlation_ids, tenant_ids, v_topic.max_payload_bytes, v_now);
    return query
    insert into penstock_data.messages (
        topic_id, published_at, segment, priority, deliver_after, expires_at, flagged, key, correlation_id, tenant_id, payload, headers)
    select
        v_topic.id, v_now, v_topic.segment, coalesce(u.priority, 0), case when u.delay > v_now then u.delay end, u.expiry,
        coalesce(u.priority, 0) <> 0 or coalesce(u.delay > v_now, false), u.key, u.correlation, u.tenant, u.payload, u.header
    from unnest(payloads, publish_messages.deliver_after, publish_messages.headers, keys, priorities,
        publish_messages.expires_at, correlation_ids, tenant_ids)
        as u(payload, delay, header, key, priority, expiry, correlation, tenant)
    returning id;

    if publish_messages.deliver_after is not null or priorities is not null then
        insert into penstock_data.flags (topic_id) values (v_topic.id) on conflict do nothing;
    end if;
    if v_count > 0 and (v_topic.awaited or v_topic.always <> '{}') then
        perform penstock_data.wake_topic(v_topic.id, v_topic.always, currval('penstock_data.message_id'));
    end if;
end
$$;
comment on function penstock.publish_messages(text, jsonb[], timestamptz[], jsonb[], text[], int[], timestamptz[], text[], text[], text[], interval) is
    'Append many messages to a topic in one statement; returns their ids in order.';
