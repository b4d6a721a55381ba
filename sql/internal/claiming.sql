-- Say what is wrong with the arguments of a claim.
create or replace function penstock_data.check_claim(p_token text, p_seconds int, p_batch_size int) returns void
language plpgsql as $$
begin
    perform penstock_data.check_text('consumer_token', p_token, true);
    perform penstock_data.check_range('vt_seconds', p_seconds, 0, 604800);
    perform penstock_data.check_range('batch_size', p_batch_size, 1, 10000);
end
$$;

-- Under REPEATABLE READ the position we see may be old.  Locking it and writing it again at the next seq tells: PostgreSQL
-- raises a serialization error when it was trimmed, or when somebody was there first.
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
returns table (
    message_id bigint, payload jsonb, headers jsonb, key text, priority int, delivery_attempts int, vt timestamptz,
    published_at timestamptz, correlation_id text, tenant_id text
)
language sql stable as $$
    select m.id, m.payload, m.headers, m.key, m.priority, u.attempt, p_deadline, m.published_at, m.correlation_id, m.tenant_id
    from unnest(p_ids, p_attempts) with ordinality as u(id, attempt, place)
    join penstock_data.messages m on m.topic_id = p_topic_id and m.id = u.id
    order by u.place
$$;

-- Take messages out of the claims of a token: whole claims where all their messages are named, else the claim is split.
-- Yields one row per claim touched, holding just the messages taken.  Ids whose claim is lost are passed over.
-- Locks: those claims.
create or replace function penstock_data.unclaim(p_queue_id bigint, p_token text, p_ids bigint[], p_now timestamptz)
returns setof penstock_data.claims
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_rest  bigint[] := array(select distinct id from unnest(p_ids) id where id is not null order by id desc);
    v_claim penstock_data.claims;
begin
    while v_rest <> '{}' loop
        -- The claim of the highest id left: the nearest one that begins at or before it.
        select c.* into v_claim
        from penstock_data.claims c
        where c.queue_id = p_queue_id and c.token = p_token and c.first_id <= v_rest[1]
          and v_rest[1] = any (c.message_ids) and c.deadline > p_now
        order by c.first_id desc limit 1
        for update;
        if not found then
            -- Lost, unless another call with this token changed the claim while we waited for it: then look again.
            if not exists (
                select from penstock_data.claims c
                where c.queue_id = p_queue_id and c.token = p_token and c.first_id <= v_rest[1]
                  and v_rest[1] = any (c.message_ids) and c.deadline > p_now
            ) then
                v_rest := v_rest[2:];
            end if;
            continue;
        end if;
        if v_claim.message_ids <@ v_rest then
            delete from penstock_data.claims c
            where c.queue_id = p_queue_id and c.token = p_token and c.first_id = v_claim.first_id;
            return next v_claim;
        else
            return next penstock_data.split_claim(v_claim, v_rest);
        end if;
        v_rest := array(select id from unnest(v_rest) id where id <> all (v_claim.message_ids) order by id desc);
    end loop;
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
            min(u.id), array_agg(u.id order by u.place),
            case when p_claim.attempts is not null then array_agg(u.attempt order by u.place) end,
            case when p_claim.lanes is not null then array_agg(u.lane order by u.place) end
        from unnest(p_claim.message_ids, p_claim.attempts, p_claim.lanes) with ordinality as u(id, attempt, lane, place)
        where u.id <> all (p_ids))
    where c.queue_id = p_claim.queue_id and c.token = p_claim.token and c.first_id = p_claim.first_id;

    select
        min(u.id), array_agg(u.id order by u.place),
        case when p_claim.attempts is not null then array_agg(u.attempt order by u.place) end,
        case when p_claim.lanes is not null then array_agg(u.lane order by u.place) end
    into v_taken.first_id, v_taken.message_ids, v_taken.attempts, v_taken.lanes
    from unnest(p_claim.message_ids, p_claim.attempts, p_claim.lanes) with ordinality as u(id, attempt, lane, place)
    where u.id = any (p_ids);
    return v_taken;
end
$$;
