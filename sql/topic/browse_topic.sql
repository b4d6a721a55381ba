-- Look at the log of a topic, in the order of ids, a page at a time: what is kept of it, read by its queues or not.
-- Everything committed before the first page is found; what commits meanwhile may be found or not.
-- Errors: PS001 unknown topic, PS005 page_size.
-- Roles: admin
create or replace function penstock.browse_topic(topic_name text, after bigint default 0, page_size int default 1000)
returns table (
    message_id bigint, payload jsonb, headers jsonb, key text, priority int, published_at timestamptz,
    deliver_after timestamptz, expires_at timestamptz, correlation_id text, tenant_id text
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_topic_id bigint := penstock_data.topic_id(topic_name);
begin
    perform penstock_data.check_range('page_size', page_size, 1, 10000);
    return query
    select m.id, m.payload, m.headers, m.key, m.priority, m.published_at, m.deliver_after, m.expires_at, m.correlation_id, m.tenant_id
    from penstock_data.messages m
    where m.topic_id = v_topic_id and m.id > coalesce(after, 0)
    order by m.id limit page_size;
end
$$;
comment on function penstock.browse_topic(text, bigint, int) is 'Look at the log of a topic, a page at a time.';
