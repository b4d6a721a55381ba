-- Delete a topic with its queues, readers and everything in them.  Its messages vanish at once and their storage with
-- the segments they lie in.  Locks: the claim lock of each of its queues.
-- Roles: admin
create or replace function penstock.delete_topic(topic_name text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_topic_id bigint;
    v_queue    text;
begin
    perform penstock_data.check_name('topic', topic_name);
    select t.id into v_topic_id from penstock_data.topics t where t.name = topic_name for update;
    if not found then
        perform penstock_data.fail('PS001', format('topic %L does not exist', topic_name));
    end if;
    perform penstock_data.check_incarnation();
    for v_queue in select q.name from penstock_data.queues q where q.topic_id = v_topic_id order by q.id loop
        perform penstock_data.drop_queue(v_queue);
    end loop;
    delete from penstock_data.flags f where f.topic_id = v_topic_id;
    delete from penstock_data.dedupe_keys d where d.topic_id = v_topic_id;
    delete from penstock_data.waiting w where w.topic_id = v_topic_id;
    delete from penstock_data.emptied e where e.topic_id = v_topic_id;
    delete from penstock_data.reader_positions p using penstock_data.readers r where r.topic_id = v_topic_id and p.reader_id = r.id;
    delete from penstock_data.topics t where t.id = v_topic_id;
end
$$;
comment on function penstock.delete_topic(text) is 'Delete a topic with all its queues, readers and messages.';
