-- Say what is wrong with the arguments of a claim.
create or replace function penstock_data.check_claim(p_token text, p_seconds int, p_batch_size int) returns void
language plpgsql as $$
begin
    perform penstock_data.check_text('consumer_token', p_token, true);
    perform penstock_data.check_range('vt_seconds', p_seconds, 0, 604800);
    perform penstock_data.check_range('batch_size', p_batch_size, 1, 10000);
end
$$;

-- Tell the caller of a claim that it did not get its turn: no rows come, and yet the queue may hold messages.
create or replace function penstock_data.tell_busy(p_queue_name text) returns void
language plpgsql as $$
begin
    raise notice using errcode = 'PS018', message = format('queue %L is busy: another claim holds it', p_queue_name);
end
$$;

-- A claim has found something, so its consumer needs no waking until it looks in vain again.  Registrations that
-- another claim is ending are left to it.
create or replace function penstock_data.end_waiting(p_topic_id bigint, p_queue_id bigint, p_token text, p_now timestamptz)
returns void
language plpgsql as $$
begin
    delete from penstock_data.waiting w where w.ctid = any (array(
        select o.ctid from penstock_data.waiting o
        where o.topic_id = p_topic_id and o.until > p_now and o.queue_id = p_queue_id and coalesce(o.token = p_token, true)
        for update skip locked));
end
$$;

-- Under REPEATABLE READ the position we see may be old.  To find out, lock it and insert it again at the next seq:
-- PostgreSQL raises a serialization error if it was trimmed, or if another transaction has inserted that seq before.
create or replace function penstock_data.guard_position(p_position penstock_data.positions) returns penstock_data.positions
language plpgsql as $$
begin
    perform from penstock_data.positions p where p.queue_id = p_position.queue_id and p.seq = p_position.seq for update;
    p_position.seq := p_position.seq + 1;
    insert into penstock_data.positions select p_position.* on conflict do nothing;
    return p_position;
end
$$;

-- Claimed messages as consumers see them.
create or replace function penstock_data.claimed_rows(p_topic_id bigint, p_ids bigint[], p_attempts int[], p_deadline timestamptz)
returns setof penstock_data.claimed_message
language sql stable as $$
    select m.id, m.payload, m.headers, m.key, m.priority, u.attempt, p_deadline, m.published_at, m.correlation_id, m.tenant_id
    from unnest(p_ids, p_attempts) with ordinality as u(id, attempt, place)
    cross join lateral (
        -- One look-up per id: a join might read the whole topic, when the plan was made while the log was small.
        select * from penstock_data.messages m where m.topic_id = p_topic_id and m.id = u.id limit 1) m
    order by u.place
$$;

-- Take messages out of the claims of a token: whole claims where all their messages are named, else the claim is split.
-- Yields one row per claim touched, holding just the messages taken.  Ids whose claim is lost are passed over.
-- Locks: those claims.
-- Arrays are compared by `in (select unnest(…))`, which hashes one of them: operators compare each with each.
create or replace function penstock_data.unclaim(p_queue_id bigint, p_token text, p_ids bigint[], p_now timestamptz)
returns setof penstock_data.claims
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    v_rest   bigint[] := array(select distinct id from unnest(p_ids) id where id is not null order by id);
    v_count  int := cardinality(v_rest);
    v_held   boolean := false;      -- only ids that a claim of the token held a moment ago are left
    v_claim  penstock_data.claims;
    v_below  int;
    v_near   bigint[];              -- ids that the claim may hold …
    v_others bigint[];              -- … and those of them that it does not
begin
    while v_count > 0 loop
        -- The claim of the highest id left: the nearest one that begins at or before it.
        select c.* into v_claim
        from penstock_data.claims c
        where c.queue_id = p_queue_id and c.token = p_token and c.first_id <= v_rest[v_count]
          and v_rest[v_count] = any (c.message_ids) and c.deadline > p_now
        order by c.first_id desc limit 1
        for update;
        if not found then
            -- Lost, unless another call with this token changed the claim while we waited for it: then look again.
            if not exists (
                select from penstock_data.claims c
                where c.queue_id = p_queue_id and c.token = p_token and c.first_id <= v_rest[v_count]
                  and v_rest[v_count] = any (c.message_ids) and c.deadline > p_now
            ) then
                v_rest := v_rest[:v_count - 1];
                -- Others may be lost as well: found out for all of them at once, or each would be looked for in all
                -- claims.
                if v_count > 2 and not v_held then
                    v_held := true;
                    v_rest := penstock_data.held_ids(p_queue_id, p_token, v_rest, p_now);
                end if;
                v_count := cardinality(v_rest);
            end if;
            continue;
        end if;
        v_below := width_bucket(v_claim.first_id - 1, v_rest);
        v_near := v_rest[v_below + 1:];
        v_others := array(select id from unnest(v_near) id where id not in (select unnest(v_claim.message_ids)) order by id);
        if cardinality(v_near) - cardinality(v_others) = cardinality(v_claim.message_ids) then
            delete from penstock_data.claims c
            where c.queue_id = p_queue_id and c.token = p_token and c.first_id = v_claim.first_id;
            return next v_claim;
        else
            return next penstock_data.split_claim(v_claim, v_near);
        end if;
        v_rest := v_rest[:v_below] || v_others;
        v_count := cardinality(v_rest);
    end loop;
end
$$;

-- Those of some ids, in order, that the claims of a token hold now.
create or replace function penstock_data.held_ids(p_queue_id bigint, p_token text, p_ids bigint[], p_now timestamptz) returns bigint[]
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
    return array(
        select u.id
        from penstock_data.claims c cross join lateral unnest(c.message_ids) as u(id)
        where c.queue_id = p_queue_id and c.token = p_token and c.first_id <= p_ids[cardinality(p_ids)] and c.deadline > p_now
          and (u.id in (select unnest(p_ids))) is true
        order by u.id);
end
$$;

-- Leave in a claim what is not named; yields the part that is.
create or replace function penstock_data.split_claim(p_claim penstock_data.claims, p_ids bigint[]) returns penstock_data.claims
language plpgsql as $$
declare
    v_taken penstock_data.claims := p_claim;
begin
    -- Updated in place, so that a call waiting for this claim finds what is left of it.
    update penstock_data.claims c
    set (first_id, message_ids, attempts, lanes) = (
        select
            case when p_claim.token <> '' then min(u.id) else p_claim.first_id end, array_agg(u.id order by u.place),
            case when p_claim.attempts is not null then array_agg(u.attempt order by u.place) end,
            case when p_claim.lanes is not null then array_agg(u.lane order by u.place) end
        from unnest(p_claim.message_ids, p_claim.attempts, p_claim.lanes) with ordinality as u(id, attempt, lane, place)
        where u.id not in (select unnest(p_ids)))
    where c.queue_id = p_claim.queue_id and c.token = p_claim.token and c.first_id = p_claim.first_id;

    select
        min(u.id), array_agg(u.id order by u.place),
        case when p_claim.attempts is not null then array_agg(u.attempt order by u.place) end,
        case when p_claim.lanes is not null then array_agg(u.lane order by u.place) end
    into v_taken.first_id, v_taken.message_ids, v_taken.attempts, v_taken.lanes
    from unnest(p_claim.message_ids, p_claim.attempts, p_claim.lanes) with ordinality as u(id, attempt, lane, place)
    where (u.id in (select unnest(p_ids))) is true;
    return v_taken;
end
$$;

-- Did one of the transactions that were open in a snapshot publish flagged messages to the topic, and commit since?
create or replace function penstock_data.flagged_late(p_topic_id bigint, p_snapshot pg_snapshot) returns boolean
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
    return exists (
        select from pg_snapshot_xip(p_snapshot) as x(xid)
        join penstock_data.flags f on f.topic_id = p_topic_id and f.xid = x.xid);
end
$$;

-- After a claim has looked around: when the next one must.  A look below the floor is due after a second, later when it
-- took long (it walks over dead rows while a transaction holds a snapshot) or when nothing happens in the queue.
-- p_busy: the claim found something scheduled.  p_full: it has looked below the floor.
create or replace function penstock_data.plan_attention(
    p_position penstock_data.positions, p_now timestamptz, p_started_at timestamptz, p_direct boolean, p_busy boolean, p_full boolean
) returns penstock_data.positions
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    c_near constant interval := '2 seconds';
begin
    if p_full then
        p_position := penstock_data.forget_levels(p_position);
        p_position.full_scan_at := p_now + greatest(
            case when p_busy then interval '1 second' else '10 seconds' end, (clock_timestamp() - p_started_at) * 100);
    end if;
    if not p_direct then
        p_position.attend_at := p_position.full_scan_at;
        return p_position;
    end if;
    if p_full or p_now >= p_position.attend_at then
        p_position.attend_at := p_position.full_scan_at;
        if p_position.full_scan_at > p_now + interval '1 second' then
            -- A busy queue looks again in a second.  Another one looks at the next deadline, but only at those of the
            -- next two seconds: behind them a held snapshot may keep many claims that have ended.
            p_position.attend_at := least(p_position.attend_at, case when p_busy then p_now + interval '1 second' else coalesce((
                select c.deadline from penstock_data.claims c
                where c.queue_id = p_position.queue_id and c.deadline > '-infinity' and c.deadline > p_now and c.deadline <= p_now + c_near
                order by c.deadline limit 1), p_now + c_near) end);
        end if;
    end if;
    p_position.attend_at := least(p_position.attend_at, (
        select min(s.visible_at)
        from unnest(coalesce(p_position.levels, '{0}'), p_position.level_floors, p_position.level_floor_ids) as level(priority, floor, floor_id)
        cross join lateral (
            select s.visible_at from penstock_data.scheduled s
            where s.queue_id = p_position.queue_id and s.priority = level.priority and s.rank is null
              and (s.visible_at, s.message_id) > (coalesce(level.floor, p_now), coalesce(level.floor_id, 9223372036854775807))
            order by s.visible_at, s.message_id limit 1) s));
    return p_position;
end
$$;
