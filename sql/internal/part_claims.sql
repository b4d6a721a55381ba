-- Part what was claimed at once for several consumers, so that each can finish its share without touching the others':
-- p_shares are the ids of each.  The claims belong to this transaction.
create or replace function penstock_data.part_claims(p_queue_id bigint, p_token text, p_shares jsonb) returns void
language sql as $$
    with whole as (
        delete from penstock_data.claims c where c.queue_id = p_queue_id and c.token = p_token
        returning c.*
    ), messages as (
        select w.deadline, w.claimed_at, w.histories, u.id, u.attempt, u.lane, w.attempts is not null as counted, w.lanes is not null as laned
        from whole w cross join lateral unnest(w.message_ids, w.attempts, w.lanes) as u(id, attempt, lane)
    )
    insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
    select p_queue_id, min(m.id), m.deadline, m.claimed_at, p_token, array_agg(m.id order by i.place),
        case when bool_or(m.counted) then array_agg(coalesce(m.attempt, 1) order by i.place) end,
        case when bool_or(m.laned) then array_agg(m.lane order by i.place) end,
        (select jsonb_object_agg(h.key, h.value) from messages o cross join lateral jsonb_each(o.histories) h
         where h.key = any (array_agg(m.id::text)))
    from jsonb_array_elements(p_shares) with ordinality as s(ids, share)
    cross join lateral jsonb_array_elements_text(s.ids) with ordinality as i(id, place)
    join messages m on m.id = i.id::bigint
    group by s.share, m.deadline, m.claimed_at
$$;
