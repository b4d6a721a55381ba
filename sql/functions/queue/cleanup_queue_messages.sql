-- Forget the completed messages of a queue.  Returns how many.
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
create or replace function penstock.cleanup_topic_messages(topic_name text) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_name('topic', topic_name);
    if not exists (select from penstock_data.topics t where t.name = topic_name) then
        perform penstock_data.fail('PS001', format('topic %L does not exist', topic_name));
    end if;
    perform penstock_data.check_incarnation();
    return (
        select coalesce(sum(penstock_data.forget_done(q.id)), 0)
        from penstock_data.queues q join penstock_data.topics t on t.id = q.topic_id
        where t.name = topic_name);
end
$$;
comment on function penstock.cleanup_topic_messages(text) is 'Forget the completed messages of a topic''s queues; returns how many.';
