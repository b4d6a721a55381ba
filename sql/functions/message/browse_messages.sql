-- Look at a queue's messages without claiming them, in the order of their ids, a page at a time.
create or replace function penstock.browse_messages(queue_name text, after bigint default 0, page_size int default 100)
returns table (
    message_id bigint, state text, payload jsonb, headers jsonb, key text, priority int, delivery_attempts int,
    visible_at timestamptz, published_at timestamptz, correlation_id text, tenant_id text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_queue_id bigint := penstock_data.queue_id(queue_name);
begin
    perform penstock_data.check_range('page_size', page_size, 1, 10000);
    return query
    select m.id, p.state, m.payload, m.headers, m.key, m.priority, p.attempt, p.visible_at, m.published_at, m.correlation_id, m.tenant_id
    from (
        select s.message_id, 'scheduled' as state, s.attempt, s.visible_at from penstock_data.scheduled_messages(v_queue_id) s
        union all
        select c.message_id, 'claimed', c.attempt, c.deadline from penstock_data.claimed_messages(v_queue_id) c
        union all
        select u.id, 'unread', 0, null from penstock_data.unread_page(v_queue_id, coalesce(after, 0), page_size) u
    ) p
    join penstock_data.queues q on q.id = v_queue_id
    join penstock_data.messages m on m.topic_id = q.topic_id and m.id = p.message_id
    where p.message_id > coalesce(after, 0)
    order by m.id
    limit page_size;
end
$$;
comment on function penstock.browse_messages(text, bigint, int) is 'Look at the messages of a queue without claiming them.';
