-- ReceiveMessage.  Answers at once, whatever WaitTimeSeconds says: waiting is the server's business, which knows when to
-- look again.  Locks: the queue's claim lock.  Errors: OverLimit and those of the arguments.
create or replace function pgqs_data.receive_message(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue   pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_fault   jsonb := pgqs_data.receive_fault(v_queue, p_request);
    v_count   int := coalesce((p_request ->> 'MaxNumberOfMessages')::int, 1);
    v_seconds int := coalesce((p_request ->> 'VisibilityTimeout')::int, v_queue.visibility_timeout);
    v_again   text := case when v_queue.fifo then p_request ->> 'ReceiveRequestAttemptId' end;
    v_token   text := pgqs_data.new_token();
    v_repeat  jsonb;
    v_messages pgqs_data.message[];
begin
    if v_fault is not null then
        perform pgqs_data.raise(v_fault);
    end if;
    if v_again is not null then
        v_repeat := pgqs_data.repeat_receive(v_queue, v_again, v_seconds, p_request);
        if v_repeat is not null then
            return v_repeat;
        end if;
    end if;
    if pgqs_data.is_over_limit(v_queue.id) then
        if v_queue.fifo then
            return '{}';
        end if;
        perform pgqs_data.fail('OverLimit', 'The maximum number of in flight messages is reached: delete some, or let their visibility timeout pass.');
    end if;
    v_messages := pgqs_data.claim(v_queue, v_token, v_seconds, v_count);
    if v_again is not null and v_messages <> '{}' then
        perform pgqs_data.remember_receive(v_queue.id, v_again, v_token, v_messages);
    end if;
    return pgqs_data.receive_answer(v_queue, v_token, v_messages, p_request);
end
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

-- The answer to a receive.
create or replace function pgqs_data.receive_answer(p_queue pgqs_data.queue, p_token text, p_messages pgqs_data.message[], p_request jsonb)
returns jsonb
language plpgsql as $$
declare
    v_names   text[];
    v_filters text[];
begin
    if p_messages = '{}' then
        return '{}';
    end if;
    v_names := pgqs_data.texts_of(p_request, 'AttributeNames') || pgqs_data.texts_of(p_request, 'MessageSystemAttributeNames');
    v_filters := pgqs_data.texts_of(p_request, 'MessageAttributeNames');
    return jsonb_build_object('Messages', (
        select jsonb_agg(pgqs_data.received(p_queue, s.id, p_token, m.message, v_names, v_filters) order by m.place)
        from (select u.place, (u.id, u.payload, u.headers, u.key, u.attempt, u.published_at, u.first_at, u.claimed_at)::pgqs_data.message as message
              from unnest(p_messages) with ordinality as u(id, payload, headers, key, attempt, published_at, first_at, claimed_at, place)) m
        cross join pgqs_data.system s));
end
$$;
