-- What is wrong with a message to be sent; null when nothing is.  p_entry is a SendMessage request or a batch's entry.
create or replace function pgqs_data.entry_fault(p_queue pgqs_data.queue, p_entry jsonb) returns jsonb
language plpgsql stable as $$
declare
    v_body  text := p_entry ->> 'MessageBody';
    v_group text := p_entry ->> 'MessageGroupId';
    v_dedup text := p_entry ->> 'MessageDeduplicationId';
    v_delay text := p_entry ->> 'DelaySeconds';
    v_fault jsonb;
begin
    if coalesce(v_body, '') = '' then
        return pgqs_data.error('MissingRequiredParameterException', 'The request must contain the parameter MessageBody.');
    elsif jsonb_typeof(p_entry -> 'MessageBody') <> 'string' then
        return pgqs_data.invalid_value(left(v_body, 100), 'MessageBody', 'Must be a string.');
    elsif v_body ~ pgqs_data.bad_characters() then
        return pgqs_data.bad_character(v_body, 'the message body');
    elsif v_delay is not null and (v_delay !~ '^\d{1,9}$' or v_delay::int > 900) then
        return pgqs_data.invalid_value(left(v_delay, 100), 'DelaySeconds', 'DelaySeconds must be >= 0 and <= 900.');
    elsif p_queue.fifo and v_delay::int > 0 then
        return pgqs_data.invalid_value(v_delay, 'DelaySeconds', 'The request include parameter that is not valid for this queue type.');
    elsif v_dedup is not null and not p_queue.fifo then
        return pgqs_data.invalid_value(left(v_dedup, 128), 'MessageDeduplicationId', 'The request include parameter that is not valid for this queue type.');
    elsif v_group !~ '^[!-~]{1,128}$' then
        return pgqs_data.invalid_value(left(v_group, 128), 'MessageGroupId',
            'MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.');
    elsif v_dedup !~ '^[!-~]{1,128}$' then
        return pgqs_data.invalid_value(left(v_dedup, 128), 'MessageDeduplicationId',
            'MessageDeduplicationId can only include alphanumeric and punctuation characters. 1 to 128 in length.');
    elsif p_queue.fifo and v_group is null then
        return pgqs_data.error('MissingRequiredParameterException', 'The request must contain the parameter MessageGroupId.');
    elsif p_queue.fifo and v_dedup is null and not p_queue.content_based then
        return pgqs_data.error('InvalidParameterValueException',
            'The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly');
    end if;
    v_fault := coalesce(
        pgqs_data.attributes_fault(p_entry -> 'MessageAttributes'), pgqs_data.system_attributes_fault(p_entry -> 'MessageSystemAttributes'));
    if v_fault is null and pgqs_data.entry_size(p_entry) > p_queue.maximum_message_size then
        v_fault := pgqs_data.error('InvalidParameterValueException',
            format('One or more parameters are invalid. Reason: Message must be shorter than %s bytes.', p_queue.maximum_message_size));
    end if;
    return v_fault;
end
$$;

-- The size of a message as SQS counts it: the body, and the names, types and values of its message attributes.
create or replace function pgqs_data.entry_size(p_entry jsonb) returns int
language sql immutable as $$
    select coalesce(octet_length(p_entry ->> 'MessageBody'), 0) + case when jsonb_typeof(p_entry -> 'MessageAttributes') = 'object'
        then pgqs_data.attributes_size(p_entry -> 'MessageAttributes') else 0 end
$$;

-- What makes a message of a FIFO queue a duplicate: the id given, else the SHA-256 of the body.
create or replace function pgqs_data.deduplication_id(p_entry jsonb) returns text
language sql immutable as $$
    select coalesce(p_entry ->> 'MessageDeduplicationId', encode(sha256(convert_to(p_entry ->> 'MessageBody', 'UTF8')), 'hex'))
$$;

-- What a message carries beside body and group: message attributes, trace header, sender, deduplication id.
create or replace function pgqs_data.entry_headers(p_queue pgqs_data.queue, p_entry jsonb, p_context jsonb) returns jsonb
language plpgsql immutable as $$
declare
    v_headers jsonb := jsonb_strip_nulls(jsonb_build_object(
        'attributes', nullif(p_entry -> 'MessageAttributes', '{}'),
        'trace', coalesce(p_entry -> 'MessageSystemAttributes' -> 'AWSTraceHeader' ->> 'StringValue', p_context ->> 'trace_header'),
        'sender', nullif(p_context ->> 'sender_id', p_queue.account),
        'dedup', case when p_queue.fifo then pgqs_data.deduplication_id(p_entry) end));
begin
    return case when v_headers <> '{}' then jsonb_build_object('sqs', v_headers) end;
end
$$;

-- The engine's dedupe key for it, within the queue or within the group.
create or replace function pgqs_data.dedupe_key(p_queue pgqs_data.queue, p_entry jsonb) returns text
language sql immutable as $$
    select case when p_queue.dedupe_scope = 'messageGroup' then concat_ws(' ', 'sqs', p_entry ->> 'MessageGroupId', pgqs_data.deduplication_id(p_entry))
        else 'sqs ' || pgqs_data.deduplication_id(p_entry) end
$$;

-- The answer for a message that was sent.  Of a duplicate the first one's id, but this one's digests.
create or replace function pgqs_data.sent(p_queue pgqs_data.queue, p_entry jsonb, p_id bigint) returns jsonb
language sql stable as $$
    select jsonb_build_object('MessageId', pgqs_data.message_uuid(p_queue.system_id, p_id), 'MD5OfMessageBody', md5(p_entry ->> 'MessageBody'))
        || case when coalesce(p_entry -> 'MessageAttributes', 'null') not in ('{}', 'null')
            then jsonb_build_object('MD5OfMessageAttributes', pgqs_data.attributes_md5(p_entry -> 'MessageAttributes')) else '{}' end
        || case when coalesce(p_entry -> 'MessageSystemAttributes', 'null') not in ('{}', 'null')
            then jsonb_build_object('MD5OfMessageSystemAttributes', pgqs_data.attributes_md5(p_entry -> 'MessageSystemAttributes')) else '{}' end
        || case when p_queue.fifo then jsonb_build_object('SequenceNumber', pgqs_data.sequence_number(p_id)) else '{}' end
$$;

-- Send messages to one queue; p_contexts has one for each, or a single one for all.  Returns a result for each as JSON
-- text, or {"__error": …}; what is faulty does not hinder the others.  Messages that carry nothing but a body take a
-- short way.
create or replace function pgqs_data.send_all(p_queue pgqs_data.queue, p_entries jsonb[], p_contexts jsonb[]) returns text[]
language plpgsql as $$
declare
    v_plain   record;
    v_results text[];
begin
    if p_queue.ordering <> 'fifo' and p_queue.delay_seconds = 0 and p_queue.topic_name = p_queue.engine_name then
        select
            bool_and((
                jsonb_typeof(e -> 'MessageBody') = 'string'
                and octet_length(e ->> 'MessageBody') between 1 and p_queue.maximum_message_size
                and not e ?| '{MessageAttributes,MessageSystemAttributes,DelaySeconds,MessageGroupId,MessageDeduplicationId}'
                and e ->> 'MessageBody' !~ '[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]') is true) as plain,
            array_agg(e -> 'MessageBody') as payloads
        into v_plain
        from unnest(p_entries) e;
        if v_plain.plain then
            select array_agg('{"MessageId":"' || pgqs_data.message_uuid(p_queue.system_id, u.id)
                || '","MD5OfMessageBody":"' || md5(u.payload #>> '{}') || '"}')
            into v_results
            from unnest(
                penstock_data.append_plain(p_queue.topic_name, v_plain.payloads, array(
                    select pgqs_data.plain_headers(c, p_queue.account) from unnest(p_contexts) c)),
                v_plain.payloads) as u(id, payload);
            return v_results;
        end if;
    end if;
    return pgqs_data.send_carefully(p_queue, p_entries, p_contexts);
end
$$;

-- What pgqs_data.entry_headers makes of the context alone.
create or replace function pgqs_data.plain_headers(p_context jsonb, p_account text) returns jsonb
language sql stable as $$
    select case
        when p_context ? 'trace_header' then
            jsonb_build_object('sqs', jsonb_strip_nulls(jsonb_build_object(
                'trace', p_context ->> 'trace_header', 'sender', nullif(p_context ->> 'sender_id', p_account))))
        when p_context ->> 'sender_id' <> p_account then
            jsonb_build_object('sqs', jsonb_build_object('sender', p_context ->> 'sender_id')) end
$$;

-- Contexts, one for each request, of those given: one for each already, or a single one.
create or replace function pgqs_data.for_each(p_contexts jsonb[], p_count int) returns jsonb[]
language sql immutable as $$
    select case when cardinality(p_contexts) = 1 then array_fill(p_contexts[1], array[p_count]) else p_contexts end
$$;

-- The long way: attributes, groups, delays, duplicates, faults.
-- Locks: of a FIFO queue the lock of its senders, so that its sequence numbers grow in the order of commits.
create or replace function pgqs_data.send_carefully(p_queue pgqs_data.queue, p_entries jsonb[], p_contexts jsonb[]) returns text[]
language plpgsql as $$
declare
    v_faults  jsonb[] := array(select pgqs_data.entry_fault(p_queue, e) from unnest(p_entries) e);
    v_good    record;
    v_ids     bigint[];
begin
    if p_queue.fifo then
        perform pgqs_data.lock_senders(p_queue);
    end if;
    select
        count(*)::int as count, array_agg(g.entry order by g.place) as entries, array_agg(g.place order by g.place) as places,
        array_agg(g.entry -> 'MessageBody' order by g.place) as payloads,
        array_agg(pgqs_data.entry_headers(p_queue, g.entry, g.context) order by g.place) as headers,
        array_agg(g.entry ->> 'MessageGroupId' order by g.place) as keys,
        case when p_queue.fifo then array_agg(pgqs_data.dedupe_key(p_queue, g.entry) order by g.place) end as dedupe_keys,
        case when p_queue.delay_seconds > 0 or bool_or(g.entry ? 'DelaySeconds') then array_agg(
            penstock_data.clock() + make_interval(secs => coalesce((g.entry ->> 'DelaySeconds')::int, p_queue.delay_seconds)) order by g.place) end as visible_at
    into v_good
    from unnest(p_entries, pgqs_data.for_each(p_contexts, cardinality(p_entries)), v_faults) with ordinality as g(entry, context, fault, place)
    where g.fault is null;

    if v_good.count > 0 then
        if p_queue.ordering = 'standard' and v_good.keys <> array_fill(null::text, array[v_good.count]) then
            perform penstock_data.make_fair(p_queue.engine_name);
        end if;
        if p_queue.fifo then
            v_ids := pgqs_data.publish_once(p_queue, v_good.payloads, v_good.headers, v_good.keys, v_good.visible_at, v_good.dedupe_keys);
        else
            v_ids := pgqs_data.publish(p_queue, v_good.payloads, v_good.headers, v_good.keys, v_good.visible_at);
        end if;
    end if;
    return array(
        select case when u.fault is not null then jsonb_build_object('__error', u.fault)::text
            else pgqs_data.sent(p_queue, u.entry, v_ids[array_position(v_good.places, u.place)])::text end
        from unnest(p_entries, v_faults) with ordinality as u(entry, fault, place) order by u.place);
end
$$;

-- Publish messages for a queue.  If the queue reads a topic that is not its own, they are delivered to this queue
-- alone.
create or replace function pgqs_data.publish(
    p_queue pgqs_data.queue, p_payloads jsonb[], p_headers jsonb[], p_keys text[], p_visible_at timestamptz[]
) returns bigint[]
language plpgsql as $$
begin
    if p_queue.topic_name = p_queue.engine_name then
        return array(select penstock.publish_messages(p_queue.topic_name, p_payloads, p_visible_at, p_headers, p_keys));
    end if;
    perform penstock_data.check_topic(p_queue.topic_name);
    return penstock_data.deliver(p_queue.id, p_payloads, p_headers, p_keys, p_visible_at, null);
end
$$;

-- Publish those of the messages whose dedupe key was not seen within five minutes, nor before in this call.  Returns
-- for each the id of the message that its key stands for.  Under the lock of the queue's senders, so that of two at
-- once the second sees the keys of the first.
create or replace function pgqs_data.publish_once(
    p_queue pgqs_data.queue, p_payloads jsonb[], p_headers jsonb[], p_keys text[], p_visible_at timestamptz[], p_dedupe_keys text[]
) returns bigint[]
language plpgsql as $$
declare
    v_now timestamptz := penstock_data.clock();
    -- Keys are the queue's own, also where several queues share a topic.
    v_mine text[] := array(select p_queue.id || ' ' || k from unnest(p_dedupe_keys) k);
    v_seen jsonb := (
        select jsonb_object_agg(d.dedupe_key, d.message_id)
        from (select distinct k from unnest(v_mine) k) u(key)
        cross join lateral (
            select d.dedupe_key, d.message_id from penstock_data.dedupe_keys d
            where d.topic_id = p_queue.topic_id and d.dedupe_key = u.key and d.until > v_now) d);
    v_new  record;
    v_ids  bigint[];
begin
    select array_agg(n.payload) as payloads, array_agg(n.header) as headers, array_agg(n.key) as keys,
        case when p_visible_at is not null then array_agg(n.visible_at) end as visible_at, array_agg(n.dedupe) as dedupe_keys
    into v_new
    from (
        select u.*, row_number() over (partition by u.dedupe order by u.place) as nth
        from unnest(p_payloads, p_headers, p_keys, p_visible_at, v_mine) with ordinality as u(payload, header, key, visible_at, dedupe, place)
        where (v_seen ? u.dedupe) is not true
        order by u.place
    ) n
    where n.nth = 1;
    if v_new.payloads is not null then
        v_ids := pgqs_data.publish(p_queue, v_new.payloads, v_new.headers, v_new.keys, v_new.visible_at);
        insert into penstock_data.dedupe_keys as d (topic_id, dedupe_key, message_id, until)
        select p_queue.topic_id, u.key, u.id, v_now + interval '5 minutes' from unnest(v_new.dedupe_keys, v_ids) as u(key, id)
        on conflict (topic_id, dedupe_key) do update set message_id = excluded.message_id, until = excluded.until;
        v_seen := coalesce(v_seen, '{}') || (select jsonb_object_agg(u.key, u.id) from unnest(v_new.dedupe_keys, v_ids) as u(key, id));
    end if;
    return array(select (v_seen ->> k)::bigint from unnest(v_mine) k);
end
$$;
