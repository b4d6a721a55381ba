-- ChangeMessageVisibility and ChangeMessageVisibilityBatch.
create or replace function pgqs_data.change_message_visibility(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
begin
    perform pgqs_data.require(p_request, 'ReceiptHandle');
    perform pgqs_data.require(p_request, 'VisibilityTimeout');
    return pgqs_data.only_result(pgqs_data.change_visibility(v_queue, array[p_request ->> 'ReceiptHandle'], array[p_request ->> 'VisibilityTimeout']));
end
$$;

create or replace function pgqs_data.change_message_visibility_batch(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue   pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_entries jsonb[] := pgqs_data.batch_entries(p_request, 'ChangeMessageVisibilityBatchRequestEntry');
begin
    return pgqs_data.batch_answer(v_entries, pgqs_data.change_visibility(v_queue,
        array(select coalesce(e ->> 'ReceiptHandle', '') from unnest(v_entries) e), array(select e ->> 'VisibilityTimeout' from unnest(v_entries) e)));
end
$$;
