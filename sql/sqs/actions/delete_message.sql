-- DeleteMessage and DeleteMessageBatch.
create or replace function pgqs_data.delete_message(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
begin
    return pgqs_data.only_result(pgqs_data.delete_all(v_queue, array[coalesce(p_request ->> 'ReceiptHandle', '')]));
end
$$;

create or replace function pgqs_data.delete_message_batch(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
begin
    return pgqs_data.only_result(pgqs_data.answer_batches('DeleteMessageBatch', pgqs_data.queue_of(p_request, p_context), array[p_request], array[p_context]));
end
$$;
