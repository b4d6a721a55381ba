-- Counts of a queue, exact.  pending = unread + scheduled; completed as far as history goes back.
create or replace function penstock.get_queue_statistics(queue_name text)
returns table (
    pending_count bigint, processing_count bigint, completed_count bigint, total_count bigint, scheduled_count bigint,
    dead_count bigint, oldest_pending_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select c.pending, c.processing, c.completed, c.pending + c.processing + c.completed, c.scheduled, c.dead, c.oldest_pending_at
    from penstock_data.count_queue(penstock_data.watched_queue(queue_name)) c;
end
$$;
comment on function penstock.get_queue_statistics(text) is 'Exact counts of a queue.';
