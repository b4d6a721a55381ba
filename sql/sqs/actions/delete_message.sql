-- DeleteMessage and DeleteMessageBatch.
create or replace function pgqs_data.delete_message(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
begin
    if coalesce(p_request ->> 'ReceiptHandle', '') = '' then
        perform pgqs_data.require(p_request, 'ReceiptHandle');
    end if;
    return pgqs_data.only_result(pgqs_data.delete(v_queue, array[p_request ->> 'ReceiptHandle']));
end
$$;

create or replace function pgqs_data.delete_message_batch(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue   pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_entries jsonb[] := pgqs_data.batch_entries(p_request, 'DeleteMessageBatchRequestEntry');
begin
    return pgqs_data.batch_answer(v_entries, pgqs_data.delete(v_queue, array(select coalesce(e ->> 'ReceiptHandle', '') from unnest(v_entries) e)));
end
$$;
