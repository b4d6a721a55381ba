-- Forget the completed messages of a queue.  Returns how many.
-- Roles: admin
create or replace function penstock.cleanup_queue_messages(queue_name text) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return penstock_data.forget_done(penstock_data.queue_id(queue_name));
end
$$;
comment on function penstock.cleanup_queue_messages(text) is 'Forget the completed messages of a queue; returns how many.';

-- Forget the completed messages of all queues of a topic.  Returns how many.
-- Roles: admin
create or replace function penstock.cleanup_topic_messages(topic_name text) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_topic_id bigint := penstock_data.topic_id(topic_name);
begin
    return (select coalesce(sum(penstock_data.forget_done(q.id)), 0) from penstock_data.queues q where q.topic_id = v_topic_id);
end
$$;
comment on function penstock.cleanup_topic_messages(text) is 'Forget the completed messages of a topic''s queues; returns how many.';
