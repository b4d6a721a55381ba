-- The body of a message as it was sent; what the engine's publishers gave that is no text is delivered as its JSON.
create or replace function pgqs_data.body_of(p_payload jsonb) returns text
language sql immutable as $$
    select case when jsonb_typeof(p_payload) = 'string' then p_payload #>> '{}' else p_payload::text end
$$;

-- When a claimed message was claimed first, from the history in its present claim; null: now.  Volatile, so that it
-- sees the claim that the calling statement has just made.
create or replace function pgqs_data.first_claim(p_queue_id bigint, p_token text, p_id bigint) returns timestamptz
language plpgsql as $$
begin
    return (
        select (c.histories -> p_id::text -> 0 ->> 'claimed_at')::timestamptz
        from penstock_data.claims c where c.queue_id = p_queue_id and c.token = p_token and c.histories ? p_id::text limit 1);
end
$$;

-- The system attributes of a received message that were asked for, and its message attributes, as parts of the answer.
create or replace function pgqs_data.extras(p_queue pgqs_data.queue, p_token text, p_message pgqs_data.message, p_names text[], p_filters text[])
returns jsonb
language plpgsql as $$
declare
    v_sqs    jsonb := p_message.headers -> 'sqs';
    v_system jsonb;
    v_user   jsonb;
begin
    if p_names <> '{}' then
        v_system := jsonb_strip_nulls(jsonb_build_object(
            'SenderId', coalesce(v_sqs ->> 'sender', p_queue.account),
            'SentTimestamp', pgqs_data.milliseconds(p_message.published_at),
            'ApproximateReceiveCount', (p_message.attempt + coalesce((v_sqs ->> 'count')::int, 0))::text,
            'ApproximateFirstReceiveTimestamp', coalesce(v_sqs ->> 'first', pgqs_data.milliseconds(case when p_message.attempt = 1
                then p_message.claimed_at else coalesce(pgqs_data.first_claim(p_queue.id, p_token, p_message.id), p_message.claimed_at) end)),
            'SequenceNumber', case when p_queue.fifo then pgqs_data.sequence_number(p_message.id) end,
            'MessageDeduplicationId', v_sqs ->> 'dedup',
            'MessageGroupId', p_message.key,
            'AWSTraceHeader', v_sqs ->> 'trace',
            'DeadLetterQueueSourceArn', v_sqs ->> 'source'));
        if 'All' <> all (p_names) then
            v_system := (select jsonb_object_agg(e.key, e.value) from jsonb_each(v_system) e where e.key = any (p_names));
        end if;
    end if;
    if p_filters <> '{}' and p_message.headers is not null then
        v_user := pgqs_data.chosen_attributes(pgqs_data.stored_attributes(p_message.headers), p_filters);
    end if;
    return jsonb_strip_nulls(jsonb_build_object('Attributes', v_system, 'MessageAttributes', v_user,
        'MD5OfMessageAttributes', case when v_user is not null then pgqs_data.attributes_md5(v_user) end));
end
$$;

-- A received message as SQS shows it, as JSON text: to build it as jsonb first would cost as much as to claim it.  Part
-- of the calling statement, for the sake of speed.
create or replace function pgqs_data.shown(
    p_system uuid, p_queue_id bigint, p_token text, p_id bigint, p_payload jsonb, p_headers jsonb, p_attempt int
) returns text
language sql stable as $$
    select '{"MessageId":"' || coalesce(p_headers -> 'sqs' ->> 'id', pgqs_data.message_uuid(p_system, p_id))
        || '","ReceiptHandle":"' || pgqs_data.receipt_handle(p_queue_id, p_id, p_attempt, p_token)
        || '","MD5OfBody":"' || md5(pgqs_data.body_of(p_payload))
        || '","Body":' || case when jsonb_typeof(p_payload) = 'string' then p_payload::text else to_json(p_payload::text)::text end || '}'
$$;

-- The same with the attributes that were asked for.
create or replace function pgqs_data.shown_with_extras(
    p_queue pgqs_data.queue, p_token text, p_message pgqs_data.message, p_names text[], p_filters text[]
) returns jsonb
language sql as $$
    select pgqs_data.shown((p_queue).system_id, (p_queue).id, p_token, (p_message).id, (p_message).payload, (p_message).headers, (p_message).attempt)::jsonb
        || case when p_names <> '{}' or p_filters <> '{}' then pgqs_data.extras(p_queue, p_token, p_message, p_names, p_filters) else '{}' end
$$;

-- A new token, unlike all others: 32 hexadecimal digits.
create or replace function pgqs_data.new_token() returns text
language sql volatile as $$ select replace(gen_random_uuid()::text, '-', '') $$;

-- Does a queue have as many messages in flight as SQS allows?  Counting costs as much as there are, so with a limit of
-- many only one receive in a hundred asks.
create or replace function pgqs_data.is_over_limit(p_queue pgqs_data.queue) returns boolean
language plpgsql as $$
begin
    return (
        select coalesce(sum(cardinality(c.message_ids)), 0) >= p_queue.max_in_flight
        from penstock_data.claims c where c.queue_id = p_queue.id and c.deadline > '-infinity' and c.deadline > penstock_data.clock());
end
$$;

create or replace function pgqs_data.over_limit() returns jsonb
language sql stable as $$
    select pgqs_data.error('OverLimit', 'The maximum number of in flight messages is reached: delete some, or let their visibility timeout pass.')
$$;

-- Receive messages: claim them and show them as SQS does.  Returns the text of a JSON array, null when there are none.
-- If the request names no attributes and the queue has no redrive policy, messages go straight from the claim into the
-- answer.
-- Locks: the queue's claim lock.
create or replace function pgqs_data.receive_text(p_queue pgqs_data.queue, p_token text, p_seconds int, p_count int, p_names text[], p_filters text[])
returns text
language plpgsql as $$
declare
    v_messages text;
begin
    if p_queue.max_receive_count is not null or p_names <> '{}' or p_filters <> '{}' then
        return pgqs_data.receive_with_care(p_queue, p_token, p_seconds, p_count, p_names, p_filters)::text;
    elsif p_count = 1 then
        select '[' || pgqs_data.shown(p_queue.system_id, p_queue.id, p_token, c.message_id, c.payload, c.headers, c.delivery_attempts) || ']'
        into v_messages from penstock.consume_message(p_queue.engine_name, p_token, p_seconds) c;
    else
        select '[' || string_agg(pgqs_data.shown(
            p_queue.system_id, p_queue.id, p_token, c.message_id, c.payload, c.headers, c.delivery_attempts), ',') || ']'
        into v_messages from penstock.consume_messages_batch(p_queue.engine_name, p_token, p_seconds, p_count) c;
    end if;
    return v_messages;
end
$$;

-- The long way.  Messages received more often than the redrive policy allows go to the dead-letter queue instead, and
-- others take their places.
create or replace function pgqs_data.receive_with_care(
    p_queue pgqs_data.queue, p_token text, p_seconds int, p_count int, p_names text[], p_filters text[]
) returns jsonb
language plpgsql as $$
declare
    c_rounds   constant int := 100;
    c_most     constant int := 2147483647;
    v_received jsonb;
    v_worn     pgqs_data.message[];
    v_answer   jsonb;
    v_left     int := p_count;
begin
    for v_round in 1 .. c_rounds loop
        select
            jsonb_agg(pgqs_data.shown_with_extras(p_queue, p_token, m.message, p_names, p_filters))
                filter (where (m.message).attempt <= coalesce(p_queue.max_receive_count, c_most)),
            array_agg(m.message) filter (where (m.message).attempt > p_queue.max_receive_count)
        into v_received, v_worn
        from (
            select (c.message_id, c.payload, c.headers, c.key, c.delivery_attempts, c.published_at, c.vt - make_interval(secs => p_seconds))::pgqs_data.message as message
            from (
                select * from penstock.consume_message(p_queue.engine_name, p_token, p_seconds) where v_left = 1
                union all
                select * from penstock.consume_messages_batch(p_queue.engine_name, p_token, p_seconds, v_left) where v_left > 1) c
            offset 0) m;
        if v_worn is not null and not pgqs_data.redrive(p_queue, p_token, v_worn) then
            -- The dead-letter queue is gone: they are delivered as if there were no policy.
            v_received := coalesce(v_received, '[]') || (
                select jsonb_agg(pgqs_data.shown_with_extras(p_queue, p_token, m, p_names, p_filters)) from unnest(v_worn) m);
            v_worn := null;
        end if;
        if v_received is not null then
            v_answer := coalesce(v_answer, '[]') || v_received;
            v_left := p_count - jsonb_array_length(v_answer);
        end if;
        exit when v_worn is null or v_left <= 0;
    end loop;
    return v_answer;
end
$$;
