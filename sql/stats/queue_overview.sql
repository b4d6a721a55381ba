-- Every queue at a glance: what waits to be claimed, what is blocked behind another message of its key, what is
-- delayed, what is retrying, what is claimed, what is dead.  scheduled = delayed + retrying.  Cheap however long the
-- backlog is: each number is counted up to 10,001 at most, which means "more than 10,000".
-- oldest_waiting_at: since when something is due and not claimed, waiting or blocked; oldest_blocked_at: the same of
-- what is blocked.  oldest_claimed_at: the claim that is held longest.
-- blocked_by: the message that holds up the first blocked one, its state (claimed, delayed or retrying), its token, and
-- until when it does.
-- Roles: monitor, admin
create or replace function penstock.queue_overview()
returns table (
    queue_name text, topic_name text, ordering text, paused_at timestamptz, waiting int, scheduled int, claimed int, dead int,
    oldest_waiting_at timestamptz, oldest_claimed_at timestamptz, blocked int, delayed int, retrying int, oldest_blocked_at timestamptz,
    blocked_by bigint, blocked_by_state text, blocked_by_token text, blocked_until timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
begin
    -- In PL/pgSQL, because its plan is kept: planning would cost more than running.  Each walk goes along an index, or
    -- a plan made for an empty table would read through the rows of all other queues first.
    return query
    select q.name, t.name, q.ordering, q.paused_at, least(p.waiting, 10001)::int, least(p.delayed + p.retrying, 10001)::int,
        least(c.count, 10001)::int, d.count::int, p.oldest_waiting_at, c.oldest, least(p.blocked, 10001)::int,
        least(p.delayed, 10001)::int, least(p.retrying, 10001)::int, p.oldest_blocked_at,
        p.blocked_by, p.blocked_by_state, p.blocked_by_token, p.blocked_until
    from penstock_data.queues q
    join penstock_data.topics t on t.id = q.topic_id
    cross join (select penstock_data.clock() as now) clock
    cross join lateral penstock_data.count_states(q.id, clock.now, 10001) p
    cross join lateral (
        select coalesce(sum(cardinality(c.message_ids)), 0) as count, min(c.claimed_at) as oldest
        from (select c.message_ids, c.claimed_at from penstock_data.claims c
              where c.queue_id = q.id and c.token <> '' order by c.token, c.first_id limit 10001) c) c
    cross join lateral (
        select count(*) from (select from penstock_data.dead_letters d where d.queue_id = q.id order by d.message_id limit 10001) d) d
    order by q.name;
end
$$;
comment on function penstock.queue_overview() is 'Every queue at a glance; numbers are counted up to 10,001.';
