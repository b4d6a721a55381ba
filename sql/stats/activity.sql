-- What happened since a snapshot: a row per queue from its receipts, and a row per topic with what was published.
-- Give back the `snapshot` of the answer the next time, and nothing is counted twice or missed, however transactions
-- overlap.  Without one, the answer is all zeros and the snapshot to begin with.
-- waits: seconds from when a message was due (published, or the end of its delay) to its first claim; works: seconds
-- from claim to ack; a few samples of each. complete = false: more happened than a call counts (20,000 receipts of a
-- queue, 100,000 messages of a topic).
-- Roles: monitor, admin
create or replace function penstock.activity(since pg_snapshot default null)
returns table (
    kind text, name text, snapshot pg_snapshot, published bigint, acked bigint, failed bigint, released bigint, expired bigint,
    dead bigint, lapsed bigint, waits real[], works real[], complete boolean
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    c_receipts constant int := 20000;
    c_messages constant int := 100000;
    c_samples  constant int := 20;
    v_to       pg_snapshot := pg_current_snapshot();
    v_from     pg_snapshot := coalesce(since, v_to);
begin
    return query
    select 'topic', t.name, v_to, p.count, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint,
        null::real[], null::real[], p.count < c_messages
    from penstock_data.topics t
    cross join lateral (select penstock_data.published_between(t.id, v_from, v_to, c_messages) as count) p
    order by t.name;
    return query
    select 'queue', q.name, v_to, null::bigint, r.acked, r.failed, r.released, r.expired, r.dead, r.lapsed,
        array(
            select greatest(0, extract(epoch from s.claimed_at - greatest(m.published_at, m.deliver_after)))::real
            from unnest(r.firsts, r.starts) as s(id, claimed_at)
            cross join lateral (
                select m.published_at, m.deliver_after from penstock_data.messages m where m.topic_id = q.topic_id and m.id = s.id limit 1) m),
        r.works, r.count < c_receipts
    from penstock_data.queues q
    cross join lateral (
        select count(*) as count,
            coalesce(sum(cardinality(r.message_ids)) filter (where r.outcome = 'acked'), 0)::bigint as acked,
            coalesce(sum(cardinality(r.message_ids)) filter (where r.outcome = 'failed'), 0)::bigint as failed,
            coalesce(sum(cardinality(r.message_ids)) filter (where r.outcome = 'released'), 0)::bigint as released,
            coalesce(sum(cardinality(r.message_ids)) filter (where r.outcome = 'expired'), 0)::bigint as expired,
            coalesce(sum(cardinality(r.message_ids)) filter (where r.outcome = 'dead'), 0)::bigint as dead,
            coalesce(sum(cardinality(r.message_ids)) filter (where r.outcome = 'lapsed'), 0)::bigint as lapsed,
            (array_agg(r.message_ids[1]) filter (where r.outcome = 'acked' and coalesce(r.attempts[1], 1) = 1))[:c_samples] as firsts,
            (array_agg(r.claimed_at) filter (where r.outcome = 'acked' and coalesce(r.attempts[1], 1) = 1))[:c_samples] as starts,
            coalesce((array_agg(extract(epoch from r.ended_at - r.claimed_at)::real) filter (where r.outcome = 'acked'))[:c_samples], '{}') as works
        from penstock_data.receipts_between(q.id, v_from, v_to, c_receipts) r) r
    order by q.name;
end
$$;
comment on function penstock.activity(pg_snapshot) is 'What happened since a snapshot, per queue and per topic.';
