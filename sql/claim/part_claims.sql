-- Part what was claimed at once for several consumers, so that each can finish its share without touching the others':
-- p_sizes are how many messages each got, in claim order.  The claims belong to this transaction.
create or replace function penstock_data.part_claims(p_queue_id bigint, p_token text, p_sizes int[]) returns void
language plpgsql set enable_seqscan = off as $$
declare
    v_claim penstock_data.claims;
begin
    -- One claim of first attempts in a standard queue, the usual case, is cut up as it is.
    delete from penstock_data.claims c
    where c.queue_id = p_queue_id and c.token = p_token and c.attempts is null and c.lanes is null and c.histories is null
      and cardinality(c.message_ids) = (select sum(s) from unnest(p_sizes) s)
    returning c.* into v_claim;
    if found then
        insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids)
        select p_queue_id, (select min(i) from unnest(s.ids) i), v_claim.deadline, v_claim.claimed_at, p_token, s.ids
        from (
            select v_claim.message_ids[(sum(u.size) over w - u.size + 1):(sum(u.size) over w)] as ids
            from unnest(p_sizes) with ordinality as u(size, share)
            window w as (order by u.share)
            offset 0) s;
        return;
    end if;
    with whole as (
        delete from penstock_data.claims c where c.queue_id = p_queue_id and c.token = p_token
        returning c.ctid as written, c.*
    ), messages as (
        select w.deadline, w.claimed_at, u.id, u.attempt, u.lane, w.histories -> u.id::text as history,
            row_number() over (order by w.written, u.place) as nth
        from whole w cross join lateral unnest(w.message_ids, w.attempts, w.lanes) with ordinality as u(id, attempt, lane, place)
    ), shares as (
        select s.share, sum(s.size) over (order by s.share) - s.size as before, s.size
        from unnest(p_sizes) with ordinality as s(size, share)
    )
    insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
    select p_queue_id, min(m.id), m.deadline, m.claimed_at, p_token, array_agg(m.id order by m.nth),
        case when count(m.attempt) > 0 then array_agg(coalesce(m.attempt, 1) order by m.nth) end,
        case when count(m.lane) > 0 then array_agg(m.lane order by m.nth) end,
        jsonb_object_agg(m.id, m.history) filter (where m.history is not null)
    from shares s join messages m on m.nth > s.before and m.nth <= s.before + s.size
    group by s.share, m.deadline, m.claimed_at;
end
$$;
