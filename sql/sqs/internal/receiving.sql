-- The body of a message as it was sent; what the engine's publishers gave that is no text is delivered as its JSON.
create or replace function pgqs_data.body_of(p_payload jsonb) returns text
language sql immutable as $$
    select case when jsonb_typeof(p_payload) = 'string' then p_payload #>> '{}' else p_payload::text end
$$;

-- The system attributes of a received message that were asked for; null when none was.
create or replace function pgqs_data.system_attributes(p_queue pgqs_data.queue, p_message pgqs_data.message, p_names text[]) returns jsonb
language sql immutable as $$
    select jsonb_object_agg(e.key, e.value)
    from jsonb_each_text(jsonb_build_object(
        'SenderId', coalesce(p_message.headers -> 'sqs' ->> 'sender', p_queue.account),
        'SentTimestamp', pgqs_data.milliseconds(p_message.published_at),
        'ApproximateReceiveCount', (p_message.attempt + coalesce((p_message.headers -> 'sqs' ->> 'count')::int, 0))::text,
        'ApproximateFirstReceiveTimestamp', coalesce(p_message.headers -> 'sqs' ->> 'first', pgqs_data.milliseconds(p_message.first_at)),
        'SequenceNumber', case when p_queue.fifo then pgqs_data.sequence_number(p_message.id) end,
        'MessageDeduplicationId', p_message.headers -> 'sqs' ->> 'dedup',
        'MessageGroupId', p_message.key,
        'AWSTraceHeader', p_message.headers -> 'sqs' ->> 'trace',
        'DeadLetterQueueSourceArn', p_message.headers -> 'sqs' ->> 'source')) e
    where e.value is not null and ('All' = any (p_names) or e.key = any (p_names))
$$;

-- A received message as SQS shows it.
create or replace function pgqs_data.received(
    p_queue pgqs_data.queue, p_system uuid, p_token text, p_message pgqs_data.message, p_names text[], p_filters text[]
) returns jsonb
language plpgsql immutable as $$
declare
    v_body       text := pgqs_data.body_of(p_message.payload);
    v_answer     jsonb;
    v_attributes jsonb;
begin
    v_answer := jsonb_build_object(
        'MessageId', coalesce(p_message.headers -> 'sqs' ->> 'id', pgqs_data.message_uuid(p_system, p_message.id)),
        'ReceiptHandle', pgqs_data.receipt_handle(p_queue.id, p_message.id, p_message.attempt, p_token),
        'MD5OfBody', md5(v_body), 'Body', v_body);
    if p_names <> '{}' then
        v_attributes := pgqs_data.system_attributes(p_queue, p_message, p_names);
        if v_attributes is not null then
            v_answer := v_answer || jsonb_build_object('Attributes', v_attributes);
        end if;
    end if;
    if p_filters <> '{}' and p_message.headers is not null then
        v_attributes := pgqs_data.chosen_attributes(pgqs_data.stored_attributes(p_message.headers), p_filters);
        if v_attributes is not null then
            v_answer := v_answer || jsonb_build_object(
                'MessageAttributes', v_attributes, 'MD5OfMessageAttributes', pgqs_data.attributes_md5(v_attributes));
        end if;
    end if;
    return v_answer;
end
$$;

-- A token that nobody had before: 32 hexadecimal digits.
create or replace function pgqs_data.new_token() returns text
language sql volatile as $$ select replace(gen_random_uuid()::text, '-', '') $$;

-- Does a queue have as many messages in flight as SQS allows?  Counting costs as much as there are, so of many claims
-- only some count.
create or replace function pgqs_data.is_over_limit(p_queue_id bigint) returns boolean
language sql volatile as $$
    select case when s.max_in_flight <= 1000 or random() < 0.01 then (
        select coalesce(sum(cardinality(c.message_ids)), 0) >= s.max_in_flight
        from penstock_data.claims c where c.queue_id = p_queue_id and c.deadline > '-infinity' and c.deadline > penstock_data.clock()) end is true
    from pgqs_data.system s
$$;

-- Claim messages for SQS.  Those received more often than the redrive policy allows go to the dead-letter queue instead,
-- and others take their places.  Under the queue's claim lock from the first claim on.
create or replace function pgqs_data.claim(p_queue pgqs_data.queue, p_token text, p_seconds int, p_count int) returns pgqs_data.message[]
language plpgsql as $$
declare
    c_rounds   constant int := 100;
    v_now      timestamptz;
    v_messages pgqs_data.message[] := '{}';
    v_claimed  pgqs_data.message[];
    v_worn     pgqs_data.message[];
begin
    for v_round in 1 .. c_rounds loop
        select array_agg((c.message_id, c.payload, c.headers, c.key, c.delivery_attempts, c.published_at,
                c.vt - make_interval(secs => p_seconds), c.vt - make_interval(secs => p_seconds))::pgqs_data.message)
        into v_claimed
        from penstock.consume_messages_batch(p_queue.engine_name, p_token, p_seconds, p_count - cardinality(v_messages)) c;
        exit when v_claimed is null;
        if p_queue.max_receive_count is not null then
            v_worn := array(select m from unnest(v_claimed) m where m.attempt > p_queue.max_receive_count);
            if v_worn <> '{}' and pgqs_data.redrive(p_queue, p_token, v_worn) then
                v_messages := v_messages || array(select m from unnest(v_claimed) m where m.attempt <= p_queue.max_receive_count);
                continue when cardinality(v_messages) < p_count;
                exit;
            end if;
        end if;
        v_messages := v_messages || v_claimed;
        exit;
    end loop;
    return pgqs_data.with_first_claims(p_queue.id, p_token, v_messages);
end
$$;

-- The moment of each message's first claim, from the history in its present one.
create or replace function pgqs_data.with_first_claims(p_queue_id bigint, p_token text, p_messages pgqs_data.message[])
returns pgqs_data.message[]
language plpgsql as $$
declare
    v_histories jsonb;
begin
    if not exists (select from unnest(p_messages) m where m.attempt > 1) then
        return p_messages;
    end if;
    select jsonb_object_agg(h.key, h.value -> 0 -> 'claimed_at') into v_histories
    from penstock_data.claims c cross join lateral jsonb_each(c.histories) h
    where c.queue_id = p_queue_id and c.token = p_token;
    return array(
        select (m.id, m.payload, m.headers, m.key, m.attempt, m.published_at,
            coalesce((v_histories ->> m.id::text)::timestamptz, m.first_at), m.claimed_at)::pgqs_data.message
        from unnest(p_messages) with ordinality as m(id, payload, headers, key, attempt, published_at, first_at, claimed_at, place)
        order by m.place);
end
$$;
