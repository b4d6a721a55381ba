-- All topics.
-- Roles: monitor, admin
create or replace function penstock.list_topics()
returns table (id bigint, name text, created_at timestamptz, retention interval, queue_count bigint, reader_count bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select t.id, t.name, t.created_at, t.retention,
        (select count(*) from penstock_data.queues q where q.topic_id = t.id),
        (select count(*) from penstock_data.readers r where r.topic_id = t.id)
    from penstock_data.topics t order by t.name
$$;
comment on function penstock.list_topics() is 'All topics.';
