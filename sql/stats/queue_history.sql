-- What became of a queue's messages over time, one row per step that saw something, oldest first: for charts.
-- Walks the newest receipts backwards, 20,000 at most, so a busy queue's history may begin later than since.
-- work_p50 and work_p95: seconds from claim to ack.
-- Errors: PS002 unknown queue, PS005 a step below a second, or more than 1,000 steps.
-- Roles: monitor, admin
create or replace function penstock.queue_history(queue_name text, since interval default '1 hour', step interval default '1 minute')
returns table (
    step_at timestamptz, published bigint, acked bigint, failed bigint, expired bigint, dead bigint, work_p50 real, work_p95 real
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    c_most     constant int := 20000;
    v_queue_id bigint := penstock_data.watched_queue(queue_name);
    v_topic_id bigint := (select q.topic_id from penstock_data.queues q where q.id = v_queue_id);
    v_now      timestamptz := penstock_data.clock();
begin
    if queue_history.step is null or queue_history.step < interval '1 second' then
        perform penstock_data.fail('PS005', format('step must be a second or more, not %s', coalesce(queue_history.step::text, 'null')));
    end if;
    perform penstock_data.check_range('since divided by step', ceil(extract(epoch from since) / extract(epoch from queue_history.step)), 1, 1000);
    return query
    with ended as (
        select date_bin(queue_history.step, r.ended_at, timestamptz '2000-01-01 00:00Z') as step_at, r.outcome, cardinality(r.message_ids) as count,
            case when r.outcome = 'acked' then extract(epoch from r.ended_at - r.claimed_at) end as work
        from (select * from penstock_data.receipts r where r.queue_id = v_queue_id order by r.xid desc limit c_most) r
        where r.ended_at > v_now - since
    ), steps as (
        select e.step_at, 0::bigint as published,
            coalesce(sum(e.count) filter (where e.outcome = 'acked'), 0)::bigint as acked,
            coalesce(sum(e.count) filter (where e.outcome = 'failed'), 0)::bigint as failed,
            coalesce(sum(e.count) filter (where e.outcome = 'expired'), 0)::bigint as expired,
            coalesce(sum(e.count) filter (where e.outcome = 'dead'), 0)::bigint as dead,
            percentile_disc(0.5) within group (order by e.work)::real as p50,
            percentile_disc(0.95) within group (order by e.work)::real as p95
        from ended e group by e.step_at
        union all
        select date_bin(queue_history.step, m.published_at, timestamptz '2000-01-01 00:00Z'), count(*), 0, 0, 0, 0, null, null
        from (
            select m.published_at from penstock_data.messages m
            where m.segment > 0 and m.topic_id = v_topic_id order by m.xid desc, m.id desc limit c_most) m
        where m.published_at > v_now - since
        group by 1
    )
    select s.step_at, sum(s.published)::bigint, sum(s.acked)::bigint, sum(s.failed)::bigint, sum(s.expired)::bigint,
        sum(s.dead)::bigint, max(s.p50), max(s.p95)
    from steps s group by s.step_at order by s.step_at;
end
$$;
comment on function penstock.queue_history(text, interval, interval) is 'What became of a queue''s messages over time, for charts.';
