-- When a message may be tried again after this attempt: base * 2^(attempt - 1), at most cap, up to a fifth shorter by
-- chance.  In seconds as a float, which holds the power of any base; an interval would overflow before the cap cuts it.
create or replace function penstock_data.backoff(p_base interval, p_cap interval, p_attempt int) returns interval
language sql volatile as $$
    select make_interval(secs => (1 - 0.2 * random()) * least(
        extract(epoch from p_cap)::float8, extract(epoch from p_base)::float8 * power(2::float8, least(p_attempt - 1, 100))))
$$;

-- One more attempt at the end of a message's history; the first and the last nineteen are kept.
create or replace function penstock_data.add_attempt(
    p_history jsonb, p_attempt int, p_claimed_at timestamptz, p_ended_at timestamptz, p_outcome text, p_error text
) returns jsonb
language sql immutable as $$
    select case when jsonb_array_length(h.history) > 20 then h.history - 1 else h.history end
    from (select coalesce(p_history, '[]') || jsonb_build_object(
        'attempt', p_attempt, 'claimed_at', p_claimed_at, 'ended_at', p_ended_at, 'outcome', p_outcome, 'error', p_error) as history) h
$$;

-- Messages leave a claim undone: back to the queue, or to the dead letters when their attempts are used up.
-- p_claim holds just these messages.  p_delay null: the queue's backoff for failures, at once for the rest.
-- p_outcome: 'failed', 'released' (the attempt is not counted), 'expired', or 'dead' (whatever the attempt).  An
-- attempt that was deferred and has not begun is 'released' when it expires.
-- p_locked: the caller is a claim and holds the queue's lock.  A slice, which has no token, gets no receipt: no
-- consumer had it.
create or replace function penstock_data.put_back(
    p_claim penstock_data.claims, p_outcome text, p_delay interval, p_error text, p_now timestamptz, p_locked boolean default false
) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue   penstock_data.queues;
    v_segment int := (select s.receipt_segment from penstock_data.settings s);
    v_dead    bigint[];
    v_freed   text[];         -- fifo: lanes whose head is dead
    v_due     timestamptz;
begin
    select * into v_queue from penstock_data.queues q where q.id = p_claim.queue_id;
    perform penstock_data.check_not_moved(v_queue.topic_id, p_claim.message_ids);
    if p_outcome = 'expired' and p_claim.histories @> '{"begun": false}' then
        p_outcome := 'released';
    end if;

    if p_outcome <> 'released' then
        v_dead := array(
            select u.id
            from unnest(p_claim.message_ids, p_claim.attempts) as u(id, attempt)
            where p_outcome = 'dead'
               or v_queue.max_delivery_attempts > 0 and coalesce(u.attempt, 1) >= v_queue.max_delivery_attempts);
    end if;

    with placed as (
        insert into penstock_data.scheduled (queue_id, message_id, visible_at, priority, attempt, lane, history, xid, expires_at)
        select
            v_queue.id, u.id,
            p_now + coalesce(p_delay, case when p_outcome = 'failed'
                then penstock_data.backoff(v_queue.retry_base, v_queue.retry_cap, coalesce(u.attempt, 1)) else '0' end),
            m.priority,
            coalesce(u.attempt, 1) - (p_outcome = 'released')::int,
            u.lane,
            case when p_outcome = 'released' then p_claim.histories -> u.id::text
                else penstock_data.add_attempt(p_claim.histories -> u.id::text, coalesce(u.attempt, 1), p_claim.claimed_at, p_now, p_outcome, p_error) end,
            case when not p_locked then pg_current_xact_id() end,
            case when m.expires_at is not null then coalesce((
                select r.lapses_at from penstock_data.renewals r where r.queue_id = v_queue.id and r.message_id = u.id), m.expires_at) end
        from unnest(p_claim.message_ids, p_claim.attempts, p_claim.lanes) as u(id, attempt, lane)
        cross join lateral (
            select * from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = u.id limit 1) m
        where u.id <> all (coalesce(v_dead, '{}'))
        returning visible_at
    )
    select min(p.visible_at) into v_due from placed p;

    if v_dead <> '{}' then
        insert into penstock_data.dead_letters (
            queue_id, message_id, delivery_attempts, last_error, history, moved_at,
            published_at, priority, expires_at, key, correlation_id, tenant_id, payload, headers)
        select
            v_queue.id, u.id, coalesce(u.attempt, 1),
            coalesce(p_error, case p_outcome when 'expired' then 'the claim ended without an answer' else 'no reason was given' end),
            penstock_data.add_attempt(p_claim.histories -> u.id::text, coalesce(u.attempt, 1), p_claim.claimed_at, p_now, p_outcome, p_error),
            p_now, m.published_at, m.priority, m.expires_at, m.key, m.correlation_id, m.tenant_id, m.payload, m.headers
        from unnest(p_claim.message_ids, p_claim.attempts) as u(id, attempt)
        cross join lateral (
            select * from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = u.id limit 1) m
        where u.id = any (v_dead);
        delete from penstock_data.renewals r where r.queue_id = v_queue.id and r.message_id = any (v_dead);
        if v_queue.ordering = 'fifo' then
            v_freed := array(
                select distinct u.lane from unnest(p_claim.message_ids, p_claim.lanes) as u(id, lane) where u.id = any (v_dead));
        end if;
    end if;

    if p_claim.token <> '' then
        insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids, attempts, lanes, error)
        select
            v_queue.id, p_claim.claimed_at, p_now, v_segment, case when u.id = any (v_dead) then 'dead' else p_outcome end,
            p_claim.token, array_agg(u.id), array_agg(coalesce(u.attempt, 1)),
            -- Lanes that a claim frees itself need not be learnt from the receipt, and must not be freed twice.
            case when p_claim.lanes is not null and not (p_locked and v_freed is not null and u.id = any (v_dead)) then array_agg(u.lane) end,
            p_error
        from unnest(p_claim.message_ids, p_claim.attempts, p_claim.lanes) as u(id, attempt, lane)
        group by u.id = any (v_dead);
    end if;

    if v_freed is not null and p_locked then
        perform penstock_data.finish_in_lanes(v_queue.id, v_dead, v_freed, p_now);
    elsif v_freed is not null then
        perform penstock_data.wake_lanes(v_queue.id, v_freed, p_claim.first_id);
    end if;
    if v_due is not null then
        perform penstock_data.wake_queue(v_queue.id, p_claim.message_ids[1], v_due);
    end if;
end
$$;

-- Take back the claims of a queue whose deadline passed.  Returns how many; a claim that is being acked right now is
-- left to the next scan below the floor.  p_locked as in put_back.  Locks: those claims.
create or replace function penstock_data.take_back(
    p_queue_id bigint, p_from timestamptz, p_now timestamptz, p_locked boolean default false, p_limit int default 1000
) returns int
language plpgsql as $$
declare
    v_claim penstock_data.claims;
    v_count int := 0;
begin
    for v_claim in
        delete from penstock_data.claims c
        where c.ctid = any (array(
            select d.ctid from penstock_data.claims d
            where d.queue_id = p_queue_id and d.deadline > '-infinity' and d.deadline >= p_from and d.deadline <= p_now
            order by d.deadline limit p_limit
            for update skip locked))
        returning c.*
    loop
        perform penstock_data.put_back(v_claim, 'expired', null, null, p_now, p_locked);
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;
