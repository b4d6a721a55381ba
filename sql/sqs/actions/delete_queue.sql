-- DeleteQueue: the queue with everything in it, and its topic if CreateQueue made it and no other queue or reader uses
-- it.
-- Locks: the settings lock of its name, the queue's claim lock.
create or replace function pgqs_data.delete_queue(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_owns  boolean;
begin
    perform pgqs_data.lock_settings(v_queue.engine_name);
    v_owns := coalesce((select s.owns_topic from pgqs_data.queues s where s.queue_id = v_queue.id), false);
    perform penstock.delete_queue(v_queue.engine_name);
    if v_owns and not exists (select from penstock_data.queues q where q.topic_id = v_queue.topic_id)
       and not exists (select from penstock_data.readers r where r.topic_id = v_queue.topic_id) then
        perform penstock.delete_topic(v_queue.topic_name);
    end if;
    perform pgqs_data.note_event('deleted', v_queue.engine_name);
    return '{}';
end
$$;
