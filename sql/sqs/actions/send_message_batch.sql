-- SendMessageBatch.
create or replace function pgqs_data.send_message_batch(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
begin
    return pgqs_data.only_result(pgqs_data.answer_batches('SendMessageBatch', pgqs_data.queue_of(p_request, p_context), array[p_request], array[p_context]));
end
$$;

-- What is wrong with a batch to be sent as a whole; null when nothing is: BatchRequestTooLong, and on a FIFO queue a
-- message without its group or its deduplication id.
create or replace function pgqs_data.send_batch_fault(p_queue pgqs_data.queue, p_entries jsonb[]) returns jsonb
language plpgsql stable as $$
declare
    v_bytes bigint := (
        select sum(case when jsonb_typeof(e -> 'MessageAttributes') = 'object' and pgqs_data.attributes_fault(e -> 'MessageAttributes') is null
            then pgqs_data.entry_size(e) else octet_length(e ->> 'MessageBody') end)
        from unnest(p_entries) e);
begin
    if v_bytes > 1048576 then
        return pgqs_data.error('BatchRequestTooLong', format('Batch requests cannot be longer than 1048576 bytes. You have sent %s bytes.', v_bytes));
    elsif p_queue.fifo and exists (select from unnest(p_entries) e where e ->> 'MessageGroupId' is null) then
        return pgqs_data.error('InvalidParameterValueException', 'The request must contain the parameter MessageGroupId.');
    elsif p_queue.fifo and not p_queue.content_based and exists (select from unnest(p_entries) e where e ->> 'MessageDeduplicationId' is null) then
        return pgqs_data.error('InvalidParameterValueException',
            'The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly');
    end if;
    return null;
end
$$;
