-- SendMessage.  A message that is nothing but a body, the usual case, takes the shortest way.
create or replace function pgqs_data.send_message(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_body  text := p_request ->> 'MessageBody';
    v_id    bigint;
begin
    if (v_queue.ordering <> 'fifo' and v_queue.delay_seconds = 0 and v_queue.topic_name = v_queue.engine_name
        and jsonb_typeof(p_request -> 'MessageBody') = 'string' and octet_length(v_body) between 1 and v_queue.maximum_message_size
        and not p_request ?| '{MessageAttributes,MessageSystemAttributes,DelaySeconds,MessageGroupId,MessageDeduplicationId}'
        and v_body !~ '[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]') is true then
        v_id := penstock.publish_message(v_queue.topic_name, p_request -> 'MessageBody',
            headers => case when p_context ?| '{trace_header,sender_id}' then pgqs_data.entry_headers(v_queue, p_request, p_context) end);
        return jsonb_build_object('MessageId', pgqs_data.message_uuid(v_queue.system_id, v_id), 'MD5OfMessageBody', md5(v_body));
    end if;
    return pgqs_data.only_result(pgqs_data.send_all(v_queue, array[p_request], array[p_context]));
end
$$;
