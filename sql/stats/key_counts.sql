-- How many messages of a queue are not done yet, per key; the busiest keys first.
-- Roles: admin
create or replace function penstock.key_counts(queue_name text, page_size int default 100)
returns table (key text, message_count bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_queue_id bigint := penstock_data.queue_id(queue_name);
begin
    perform penstock_data.check_range('page_size', page_size, 1, 1000000);
    return query
    select m.key, count(*)
    from (
        select s.message_id from penstock_data.scheduled_messages(v_queue_id) s
        union all select s.message_id from penstock_data.sliced_messages(v_queue_id) s
        union all select c.message_id from penstock_data.claimed_messages(v_queue_id) c
        union all select u.id from penstock_data.unread_messages(v_queue_id) u
    ) p
    join penstock_data.queues q on q.id = v_queue_id
    join penstock_data.messages m on m.topic_id = q.topic_id and m.id = p.message_id
    group by m.key
    order by count(*) desc, m.key
    limit page_size;
end
$$;
comment on function penstock.key_counts(text, int) is 'Messages not done yet, per key.';
