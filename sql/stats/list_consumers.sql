-- Who consumes: one row per queue and consumer that holds claims or waits for messages now.  1,000 claims and 1,000 of
-- those who wait are looked at, per queue.  A token "name#7" is the seventh claim of the consumer "name", and shown as
-- such.
-- Roles: monitor, admin
create or replace function penstock.list_consumers()
returns table (
    queue_name text, token text, claimed bigint, message_ids bigint[], oldest_claimed_at timestamptz, next_deadline timestamptz,
    waiting_until timestamptz
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
    select q.name, h.token, sum(h.claimed)::bigint,
        (array_agg(h.first_id order by h.claimed_at) filter (where h.first_id is not null))[:10],
        min(h.claimed_at), min(h.deadline), max(h.until)
    from penstock_data.queues q
    cross join (select penstock_data.clock() as now) clock
    cross join lateral (
        (select regexp_replace(c.token, '#[0-9]+$', '') as token, cardinality(c.message_ids) as claimed, c.first_id, c.claimed_at, c.deadline, null::timestamptz as until
         from penstock_data.claims c where c.queue_id = q.id and c.token <> '' order by c.token, c.first_id limit 1000)
        union all
        (select coalesce(regexp_replace(w.token, '#[0-9]+$', ''), ''), 0, null, null, null, w.until
         from penstock_data.waiting w
         where w.topic_id = q.topic_id and w.queue_id = q.id and w.until > clock.now order by w.until limit 1000)
    ) h
    group by q.name, h.token
    order by q.name, sum(h.claimed) desc, h.token
    limit 1000
$$;
comment on function penstock.list_consumers() is 'Who holds claims or waits for messages now.';
