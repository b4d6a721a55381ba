-- Every queue at a glance: what waits to be claimed now, what is scheduled for later, what is claimed, what is dead.
-- Cheap however long the backlog is: each number is counted up to 10,001 at most, which means "more than 10,000".
-- oldest_waiting_at: since when the head of the queue waits.  oldest_claimed_at: the claim that is held longest.
create or replace function penstock.queue_overview()
returns table (
    queue_name text, topic_name text, ordering text, paused_at timestamptz, waiting int, scheduled int, claimed int, dead int,
    oldest_waiting_at timestamptz, oldest_claimed_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
begin
    -- In PL/pgSQL, because its plan is kept: planning would cost more than running.  Each walk goes along an index, or a
    -- plan made for an empty table would read through the rows of all other queues first.
    return query
    select q.name, t.name, q.ordering, q.paused_at, least(u.due + s.due + b.due, 10001)::int, least(u.later + s.later + b.later, 10001)::int,
        least(c.count, 10001)::int, d.count::int, least(u.oldest, s.oldest, b.oldest), c.oldest
    from penstock_data.queues q
    join penstock_data.topics t on t.id = q.topic_id
    cross join (select penstock_data.clock() as now) clock
    cross join lateral (
        select count(*) filter (where m.deliver_after > clock.now) as later,
            count(*) filter (where m.deliver_after > clock.now is not true) as due,
            min(coalesce(m.deliver_after, m.published_at)) filter (where m.deliver_after > clock.now is not true) as oldest
        from penstock_data.unread_some(q.id, 0, 10001) m where m.unread) u
    cross join lateral (
        select count(*) filter (where s.visible_at <= clock.now) as due, count(*) filter (where s.visible_at > clock.now) as later,
            min(s.visible_at) filter (where s.visible_at <= clock.now) as oldest
        from (select s.visible_at from penstock_data.scheduled s where s.queue_id = q.id order by s.message_id limit 10001) s) s
    cross join lateral (
        select count(*) filter (where b.visible_at <= clock.now) as due, count(*) filter (where b.visible_at > clock.now) as later,
            min(b.visible_at) filter (where b.visible_at <= clock.now) as oldest
        from (select b.visible_at from penstock_data.backlog b where b.queue_id = q.id and not b.held order by b.lane, b.rank limit 10001) b) b
    cross join lateral (
        select coalesce(sum(cardinality(c.message_ids)), 0) as count, min(c.claimed_at) as oldest
        from (select c.message_ids, c.claimed_at from penstock_data.claims c where c.queue_id = q.id order by c.token, c.first_id limit 10001) c) c
    cross join lateral (
        select count(*) from (select from penstock_data.dead_letters d where d.queue_id = q.id order by d.message_id limit 10001) d) d
    order by q.name;
end
$$;
comment on function penstock.queue_overview() is 'Every queue at a glance; numbers are counted up to 10,001.';
