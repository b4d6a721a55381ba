-- Refuse to move messages into the topic they come from: they would meet their own queue again, and its siblings.
create or replace function penstock_data.check_move(p_queue_name text, p_topic_name text, p_most int) returns void
language plpgsql as $$
begin
    perform penstock_data.check_queue(p_queue_name);
    perform penstock_data.check_topic(p_topic_name);
    perform penstock_data.check_range('most', p_most, 1, 10000);
    if exists (select from penstock_data.queues q join penstock_data.topics t on t.id = q.topic_id
               where q.name = p_queue_name and t.name = p_topic_name) then
        perform penstock_data.fail('PS005', format('queue %L reads topic %L itself; name another topic, or requeue instead', p_queue_name, p_topic_name));
    end if;
end
$$;

-- The headers of a message that moves: they tell its first id and the queue that it comes from.
create or replace function penstock_data.moved_headers(p_headers jsonb, p_queue_name text, p_id bigint) returns jsonb
language sql immutable as $$
    select coalesce(p_headers, '{}') || jsonb_build_object(
        'penstock-original-id', coalesce(p_headers -> 'penstock-original-id', to_jsonb(p_id)), 'penstock-moved-from', p_queue_name)
$$;
