-- Append a message to a topic, in the caller's transaction.  Returns its id, or with a dedupe key seen within its
-- window the id of the first message, and then publishes nothing.  Costs one insert, however many queues the topic
-- has.  Locks: none, but publishers of one dedupe key wait for each other.
-- Errors: PS001 unknown topic, PS005 and PS007 arguments, PS009 not permitted, PS010 rebase needed, PS013 log full.
-- Roles: publisher, admin
create or replace function penstock.publish_message(
    topic_name text, payload jsonb, deliver_after timestamptz default null, headers jsonb default null, key text default null,
    priority int default 0, expires_at timestamptz default null, dedupe_key text default null, correlation_id text default null,
    tenant_id text default null, dedupe_window interval default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_variable
declare
    v_topic   record;
    v_delayed timestamptz;
    v_first   bigint;
    -- The transaction's id is assigned before the look for waiting consumers, so that a consumer that registers after
    -- that look gets a later one: see start_waiting.  The message's id is drawn after it: see penstock_data.messages.
    -- A bare message, which has a payload and nothing else, gets its id here.
    v_id      bigint := case
        when pg_current_xact_id() is not null and priority = 0 and deliver_after is null and headers is null and key is null
            and expires_at is null and dedupe_key is null and correlation_id is null and tenant_id is null
            and current_setting('transaction_read_only') = 'off'
        then nextval('penstock_data.message_id') end;
begin
    if v_id is not null then
        -- One statement, because a single message costs mostly the start of its statements and expressions.  If it
        -- inserts nothing, the statements below find out why.  A volatile call in the select list, a join for the
        -- incarnation and RETURNING would each cost a plan node or a projection more.  A consumer that was waiting when
        -- the caller's statement began may have ended its wait since: topic_woken looks again.
        insert into penstock_data.messages (id, topic_id, segment, payload)
        select v_id, t.id, s.message_segment, payload
        from penstock_data.topics t, penstock_data.settings s
        where t.name = topic_name and s.single and case
            when s.incarnation_xid = (select i.xmin from penstock_data.incarnation i where i.single)
                and current_setting('penstock.at_home', true) = 'yes' and not s.log_is_full and s.clock_shift = '0'
                and pg_column_size(payload) <= s.max_payload_bytes
                and (t.publishers is null or penstock_data.is_permitted(t.publishers))
            then case
                when t.always = '{}' and not exists (
                    select from penstock_data.waiting w where w.topic_id = t.id and w.until > statement_timestamp())
                then true
                else penstock_data.topic_woken(t.id, t.always, v_id) end
            end;
        if found then
            return v_id;
        end if;
    end if;

    select t.*, clock_timestamp() + t.clock_shift as now into v_topic from penstock_data.topic_named(topic_name) t;
    if (v_topic.ready and not penstock_data.is_faulty(payload, deliver_after, headers, key, priority, expires_at,
            dedupe_key, correlation_id, tenant_id, v_topic.max_payload_bytes, v_topic.now)) is not true then
        if v_topic.ready is not true then
            perform penstock_data.check_topic(topic_name);
        end if;
        perform penstock_data.check_message(payload, deliver_after, headers, key, priority, expires_at,
            dedupe_key, correlation_id, tenant_id, v_topic.max_payload_bytes, v_topic.now);
    end if;

    v_id := coalesce(v_id, nextval('penstock_data.message_id'));
    if dedupe_key is null and deliver_after is null and priority = 0 then
        insert into penstock_data.messages (
            id, topic_id, published_at, segment, expires_at, key, correlation_id, tenant_id, payload, headers)
        values (
            v_id, v_topic.id, v_topic.now, v_topic.segment, expires_at, key, correlation_id, tenant_id, payload, headers);
    else
        v_delayed := case when deliver_after > v_topic.now then deliver_after end;
        if dedupe_key is not null then
            v_first := penstock_data.claim_dedupe_key(
                v_topic.id, dedupe_key, v_id, coalesce(dedupe_window, v_topic.dedupe_window), v_topic.now);
            if v_first is not null then
                return v_first;
            end if;
        end if;
        insert into penstock_data.messages (
            id, topic_id, published_at, segment, priority, deliver_after, expires_at, flagged,
            key, correlation_id, tenant_id, dedupe_key, payload, headers)
        values (
            v_id, v_topic.id, v_topic.now, v_topic.segment, priority, v_delayed, expires_at, priority <> 0 or v_delayed is not null,
            key, correlation_id, tenant_id, dedupe_key, payload, headers);
        if priority <> 0 or v_delayed is not null then
            insert into penstock_data.flags (topic_id) values (v_topic.id) on conflict do nothing;
        end if;
    end if;
    if v_topic.awaited or v_topic.always <> '{}' then
        perform penstock_data.wake_topic(v_topic.id, v_topic.always, v_id);
    end if;
    return v_id;
end
$$;
comment on function penstock.publish_message(text, jsonb, timestamptz, jsonb, text, int, timestamptz, text, text, text, interval) is
    'Append a message to a topic, in the caller''s transaction; returns its id.';
