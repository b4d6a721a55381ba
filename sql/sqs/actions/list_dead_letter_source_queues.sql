-- ListDeadLetterSourceQueues: the queues that have this one as their dead-letter queue, in pages.
create or replace function pgqs_data.list_dead_letter_source_queues(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_most  int := pgqs_data.page_size(p_request);
    v_names text[] := array(
        select split_part(q.name, '/', -1)
        from pgqs_data.queues s join penstock_data.queues q on q.id = s.queue_id
        where s.redrive_target = pgqs_data.arn(v_queue.account, v_queue.region, v_queue.name)
          and split_part(q.name, '/', -1) collate "C" > pgqs_data.page_start(p_request)
        order by 1 limit v_most + 1);
begin
    -- The list is there even when it is empty: SQS spells its name in small letters, too.
    return '{"queueUrls": []}' || pgqs_data.page('queueUrls', v_names, v_most, v_queue.account, v_queue.region, p_request, p_context);
end
$$;
