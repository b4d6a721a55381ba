-- ReceiveMessage.  Answers at once, whatever WaitTimeSeconds says: waiting is the server's business, which knows when
-- to look again.  Locks: the queue's claim lock.  Errors: OverLimit and those of the arguments.
create or replace function pgqs_data.receive_message(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
begin
    return pgqs_data.only_result(array[pgqs_data.receive_for(pgqs_data.queue_of(p_request, p_context), p_request)]);
end
$$;

-- The answer to one receive from a queue as JSON text, or {"__error": …}.
create or replace function pgqs_data.receive_for(p_queue pgqs_data.queue, p_request jsonb) returns text
language plpgsql as $$
declare
    v_fault    jsonb;
    v_seconds  int;
    v_again    text;
    v_token    text := pgqs_data.new_token();
    v_messages text;
begin
    -- One look at what is usual; only the rest is examined part by part.
    if (coalesce(p_request ->> 'MaxNumberOfMessages', '1') ~ '^(?:[1-9]|10)$' and coalesce(p_request ->> 'WaitTimeSeconds', '0') ~ '^(?:1?[0-9]|20)$'
        and coalesce(p_request ->> 'VisibilityTimeout', '0') ~ '^[0-9]{1,4}$' and not p_request ? 'ReceiveRequestAttemptId') is not true then
        v_fault := pgqs_data.receive_fault(p_queue, p_request);
        if v_fault is not null then
            return jsonb_build_object('__error', v_fault)::text;
        end if;
        v_again := p_request ->> 'ReceiveRequestAttemptId';
    end if;
    v_seconds := coalesce((p_request ->> 'VisibilityTimeout')::int, p_queue.visibility_timeout);
    if v_again is not null then
        v_messages := pgqs_data.repeat_receive(p_queue, v_again, v_seconds, p_request)::text;
        if v_messages is not null then
            return '{"Messages":' || v_messages || '}';
        end if;
    end if;
    if (p_queue.max_in_flight <= 1000 or random() < 0.01) and pgqs_data.is_over_limit(p_queue) then
        return case when p_queue.fifo then '{}' else jsonb_build_object('__error', pgqs_data.over_limit())::text end;
    end if;
    v_messages := pgqs_data.receive_text(p_queue, v_token, v_seconds, coalesce((p_request ->> 'MaxNumberOfMessages')::int, 1),
        pgqs_data.wanted_names(p_request), pgqs_data.wanted_filters(p_request));
    if v_messages is null then
        return '{}';
    elsif v_again is not null then
        perform pgqs_data.remember_receive(p_queue.id, v_again, v_token);
    end if;
    return '{"Messages":' || v_messages || '}';
end
$$;

-- The system attributes that a receive asks for, under the old name and the new one.
create or replace function pgqs_data.wanted_names(p_request jsonb) returns text[]
language sql immutable as $$
    select case when p_request ?| '{AttributeNames,MessageSystemAttributeNames}'
        then pgqs_data.texts_of(p_request, 'AttributeNames') || pgqs_data.texts_of(p_request, 'MessageSystemAttributeNames') else '{}' end
$$;

-- The message attributes that it asks for.
create or replace function pgqs_data.wanted_filters(p_request jsonb) returns text[]
language sql immutable as $$
    select case when p_request ? 'MessageAttributeNames' then pgqs_data.texts_of(p_request, 'MessageAttributeNames') else '{}' end
$$;

-- What is wrong with the arguments of a receive; null when nothing is.
create or replace function pgqs_data.receive_fault(p_queue pgqs_data.queue, p_request jsonb) returns jsonb
language plpgsql stable as $$
declare
    v_count   text := p_request ->> 'MaxNumberOfMessages';
    v_wait    text := p_request ->> 'WaitTimeSeconds';
    v_seconds text := p_request ->> 'VisibilityTimeout';
    v_again   text := p_request ->> 'ReceiveRequestAttemptId';
begin
    return case
        when v_count is not null and (v_count !~ '^\d{1,9}$' or v_count::int not between 1 and 10) then
            pgqs_data.invalid_value(left(v_count, 100), 'MaxNumberOfMessages', 'Must be between 1 and 10, if provided.')
        when v_wait is not null and (v_wait !~ '^\d{1,9}$' or v_wait::int > 20) then
            pgqs_data.invalid_value(left(v_wait, 100), 'WaitTimeSeconds', 'Must be >= 0 and <= 20, if provided.')
        when v_seconds is not null and (v_seconds !~ '^\d{1,9}$' or v_seconds::int > 43200) then
            pgqs_data.invalid_value(left(v_seconds, 100), 'VisibilityTimeout', 'Must be >= 0 and <= 43200, if provided.')
        when v_again is not null and not p_queue.fifo then
            pgqs_data.invalid_value(left(v_again, 128), 'ReceiveRequestAttemptId', 'The request include parameter that is not valid for this queue type.')
        when v_again !~ '^[!-~]{1,128}$' then
            pgqs_data.invalid_value(left(v_again, 128), 'ReceiveRequestAttemptId',
                'ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. 1 to 128 in length.')
    end;
end
$$;
