-- Counts of a queue, exact.  pending = waiting + blocked + delayed + retrying, of which the last two are scheduled for
-- later; processing = claimed; completed = done, as far as history goes back; total = pending + processing + completed.
-- oldest_pending_at: when the oldest pending message was published.  oldest_waiting_at: since when something is due and
-- not claimed.
-- Roles: monitor, admin
create or replace function penstock.get_queue_statistics(queue_name text)
returns table (
    pending_count bigint, processing_count bigint, completed_count bigint, total_count bigint, scheduled_count bigint,
    dead_count bigint, oldest_pending_at timestamptz, waiting_count bigint, blocked_count bigint, delayed_count bigint,
    retrying_count bigint, oldest_waiting_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    select c.pending, c.processing, c.completed, c.pending + c.processing + c.completed, c.delayed + c.retrying, c.dead, c.oldest_pending_at,
        c.waiting, c.blocked, c.delayed, c.retrying, c.oldest_waiting_at
    from penstock_data.count_queue(penstock_data.watched_queue(queue_name)) c;
end
$$;
comment on function penstock.get_queue_statistics(text) is 'Exact counts of a queue.';
