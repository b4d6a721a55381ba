-- PurgeQueue: everything in it, in flight or not.  Locks: the queue's claim lock.  Errors: PurgeQueueInProgress.
create or replace function pgqs_data.purge_queue(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
begin
    perform pgqs_data.lock_settings(v_queue.engine_name);
    perform pgqs_data.check_not_recent('purged', v_queue.engine_name);
    perform penstock.purge_queue(v_queue.engine_name);
    perform pgqs_data.note_event('purged', v_queue.engine_name);
    return '{}';
end
$$;
