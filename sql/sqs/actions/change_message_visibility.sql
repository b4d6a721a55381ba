-- ChangeMessageVisibility and ChangeMessageVisibilityBatch.
create or replace function pgqs_data.change_message_visibility(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
begin
    perform pgqs_data.require(p_request, 'ReceiptHandle');
    perform pgqs_data.require(p_request, 'VisibilityTimeout');
    return pgqs_data.only_result(pgqs_data.change_visibilities(v_queue, array[p_request ->> 'ReceiptHandle'], array[p_request ->> 'VisibilityTimeout']));
end
$$;

create or replace function pgqs_data.change_message_visibility_batch(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
begin
    return pgqs_data.only_result(pgqs_data.answer_batches('ChangeMessageVisibilityBatch', pgqs_data.queue_of(p_request, p_context), array[p_request], array[p_context]));
end
$$;
