-- Claim messages until p_seconds from now, longer or shorter than before; with 0 they go back to the queue at once.
-- Yields what came of each id that the token still held: 'changed', or 'beyond' when the claim would last longer than
-- p_most, and then nothing was changed.  Locks: the queue's claim lock when a deadline comes nearer; then the claims.
create or replace function penstock_data.set_deadline(
    p_queue_id bigint, p_token text, p_ids bigint[], p_seconds int, p_most interval
) returns table (message_id bigint, outcome text)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_now      timestamptz := penstock_data.clock();
    v_deadline timestamptz := v_now + make_interval(secs => p_seconds);
    v_nearer   boolean := p_seconds > 0 and exists (
        select from penstock_data.claims c
        where c.queue_id = p_queue_id and c.token = p_token and c.message_ids && p_ids and c.deadline > v_deadline);
    v_claim    penstock_data.claims;
begin
    if v_nearer then
        perform penstock_data.lock_queue(q.name) from penstock_data.queues q where q.id = p_queue_id;
    end if;
    for v_claim in select * from penstock_data.unclaim(p_queue_id, p_token, p_ids, v_now) loop
        outcome := case when v_deadline > v_claim.claimed_at + p_most then 'beyond' else 'changed' end;
        if outcome = 'changed' and p_seconds = 0 then
            perform penstock_data.put_back(v_claim, 'expired', '0', null, v_now);
        else
            if outcome = 'changed' and v_nearer then
                perform penstock_data.attend_by(p_queue_id, v_deadline);
            end if;
            -- A claim that was extended since we looked keeps that: as if this call had come first.
            insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
            values (v_claim.queue_id, v_claim.first_id,
                case when outcome = 'changed' and (v_nearer or v_deadline > v_claim.deadline) then v_deadline else v_claim.deadline end,
                v_claim.claimed_at, v_claim.token, v_claim.message_ids, v_claim.attempts, v_claim.lanes, v_claim.histories);
        end if;
        return query select u.id, outcome from unnest(v_claim.message_ids) as u(id);
    end loop;
end
$$;

-- A claim of this queue now ends at p_at: lower attend_at, so that the next claims find it in time, and notify the
-- consumers that wait.
-- Locks: the queue's claim lock.
create or replace function penstock_data.attend_by(p_queue_id bigint, p_at timestamptz) returns void
language plpgsql as $$
declare
    v_position penstock_data.positions;
begin
    perform penstock_data.lock_queue(q.name) from penstock_data.queues q where q.id = p_queue_id;
    select * into v_position from penstock_data.position_of(p_queue_id);
    if v_position.attend_at > p_at then
        v_position.attend_at := p_at;
        perform penstock_data.append_position(v_position);
    end if;
    perform penstock_data.wake_queue(p_queue_id, 0);
end
$$;

-- Claim a message again that came back to the queue, for the token that held it at this attempt.
-- Returns false when the queue does not hold it at this attempt any more.
-- Locks: the queue's claim lock, and the slice that holds the message.
create or replace function penstock_data.reclaim(
    p_queue_id bigint, p_message_id bigint, p_attempt int, p_token text, p_seconds int
) returns boolean
language plpgsql as $$
declare
    v_now   timestamptz := penstock_data.clock();
    v_name  text := (select q.name from penstock_data.queues q where q.id = p_queue_id);
    v_row   penstock_data.scheduled;
    v_taken penstock_data.claims;
begin
    perform penstock_data.lock_queue_and_claims(p_queue_id, v_name, p_message_id);
    delete from penstock_data.scheduled s
    where s.queue_id = p_queue_id and s.message_id = p_message_id and s.attempt = p_attempt
    returning s.* into v_row;
    if not found then
        if not exists (
            select from penstock_data.sliced_messages(p_queue_id) s where s.message_id = p_message_id and s.attempt = p_attempt
        ) then
            return false;
        end if;
        v_taken := penstock_data.take_from_slice(p_queue_id, p_message_id);
        v_row.attempt := p_attempt;
        v_row.lane := v_taken.lanes[1];
        v_row.history := v_taken.histories -> p_message_id::text;
    end if;
    insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
    values (p_queue_id, p_message_id, v_now + make_interval(secs => p_seconds), v_now, p_token, array[p_message_id], array[v_row.attempt],
        case when v_row.lane is not null then array[v_row.lane] end,
        case when v_row.history is not null then jsonb_build_object(p_message_id::text, v_row.history) end);
    perform penstock_data.attend_by(p_queue_id, v_now + make_interval(secs => p_seconds));
    return true;
end
$$;
