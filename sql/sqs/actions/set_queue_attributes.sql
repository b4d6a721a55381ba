-- SetQueueAttributes.  Locks: the settings lock of the queue's name.
create or replace function pgqs_data.set_queue_attributes(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_given jsonb := pgqs_data.map_of(p_request, 'Attributes');
    v_old   jsonb;
begin
    perform pgqs_data.require(p_request - case when v_given = '{}' then 'Attributes' else '' end, 'Attributes');
    if v_given ? 'FifoQueue' then
        if not v_queue.fifo then
            perform pgqs_data.unknown_attribute('FifoQueue');
        elsif v_given ->> 'FifoQueue' <> 'true' then
            perform pgqs_data.bad_attribute('FifoQueue', 'Modifying queue type is not supported.');
        end if;
    end if;
    perform pgqs_data.lock_settings(v_queue.engine_name);
    select s.attributes into v_old from pgqs_data.queues s where s.queue_id = v_queue.id;
    perform pgqs_data.store_attributes(v_queue.id, pgqs_data.merged_attributes(
        pgqs_data.arn(v_queue.account, v_queue.region, v_queue.name), v_queue.fifo, coalesce(v_old, '{}'), v_given - 'FifoQueue'));
    return '{}';
end
$$;
