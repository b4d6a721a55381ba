-- All queues with their settings.
-- Roles: monitor, admin
create or replace function penstock.list_queues()
returns table (
    id bigint, name text, topic_name text, exclusive boolean, max_delivery_attempts int, keep_alive_until timestamptz,
    ordering text, retry_base_seconds numeric, retry_cap_seconds numeric, retention interval, filter jsonb, notify text,
    created_at timestamptz, paused_at timestamptz
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select q.id, q.name, t.name, q.exclusive, q.max_delivery_attempts, k.until, q.ordering,
        extract(epoch from q.retry_base)::numeric, extract(epoch from q.retry_cap)::numeric, q.retention, q.filter, q.notify, q.created_at, q.paused_at
    from penstock_data.queues q
    join penstock_data.topics t on t.id = q.topic_id
    left join penstock_data.keep_alives k on k.queue_id = q.id
    order by q.name
$$;
comment on function penstock.list_queues() is 'All queues with their settings.';
