-- SendMessageBatch.  Errors: those of a batch, BatchRequestTooLong; a FIFO message without group or deduplication id fails all.
create or replace function pgqs_data.send_message_batch(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue   pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_entries jsonb[] := pgqs_data.batch_entries(p_request, 'SendMessageBatchRequestEntry');
    v_bytes   bigint := (
        select sum(case when pgqs_data.attributes_fault(e -> 'MessageAttributes') is null then pgqs_data.entry_size(e)
            else octet_length(e ->> 'MessageBody') end) from unnest(v_entries) e);
begin
    if v_bytes > 1048576 then
        perform pgqs_data.fail('BatchRequestTooLong', format('Batch requests cannot be longer than 1048576 bytes. You have sent %s bytes.', v_bytes));
    elsif v_queue.fifo and exists (select from unnest(v_entries) e where e ->> 'MessageGroupId' is null) then
        perform pgqs_data.fail('InvalidParameterValueException', 'The request must contain the parameter MessageGroupId.');
    elsif v_queue.fifo and not v_queue.content_based and exists (select from unnest(v_entries) e where e ->> 'MessageDeduplicationId' is null) then
        perform pgqs_data.fail('InvalidParameterValueException',
            'The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly');
    end if;
    return pgqs_data.batch_answer(v_entries, pgqs_data.send(v_queue, v_entries,
        case when p_context is not null then array_fill(p_context, array[cardinality(v_entries)]) end));
end
$$;
