-- Finish a message, whichever token holds it, also if none does: the consumer with an old receipt has done the work
-- after all.  False when the queue does not hold the message any more.  Locks: the queue's claim lock, so that no claim
-- takes the message meanwhile; then a message can only move from a claim into the schedule, which is the order in which
-- we look.
create or replace function penstock_data.finish_message(p_queue_id bigint, p_message_id bigint) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_now   timestamptz := penstock_data.clock();
    v_token text;
    v_taken penstock_data.claims;
begin
    perform penstock_data.lock_queue_and_claims(q.id, q.name, p_message_id) from penstock_data.queues q where q.id = p_queue_id;
    select c.token into v_token from penstock_data.claims c
    where c.queue_id = p_queue_id and p_message_id = any (c.message_ids) limit 1;
    if v_token = '' then
        v_taken := penstock_data.take_from_slice(p_queue_id, p_message_id);
    elsif found then
        select * into v_taken from penstock_data.unclaim(p_queue_id, v_token, array[p_message_id], '-infinity');
    else
        delete from penstock_data.scheduled s where s.queue_id = p_queue_id and s.message_id = p_message_id
        returning array[s.message_id], array[s.attempt], case when s.lane is not null then array[s.lane] end
        into v_taken.message_ids, v_taken.attempts, v_taken.lanes;
        if v_taken.message_ids is null then
            return false;
        end if;
    end if;
    insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids, attempts, lanes)
    select p_queue_id, v_taken.claimed_at, v_now, s.receipt_segment, 'acked', v_taken.token, v_taken.message_ids, v_taken.attempts, v_taken.lanes
    from penstock_data.settings s;
    return penstock_data.wake_lanes(p_queue_id, v_taken.lanes, p_message_id);
end
$$;

-- Where a message that was handed out is now: 'claimed', 'scheduled', or null when the queue does not hold it.
create or replace function penstock_data.whereabouts(p_queue_id bigint, p_message_id bigint) returns text
language sql stable as $$
    select case
        when exists (select from penstock_data.claims c where c.queue_id = p_queue_id and c.token <> '' and p_message_id = any (c.message_ids)) then 'claimed'
        when exists (select from penstock_data.scheduled s where s.queue_id = p_queue_id and s.message_id = p_message_id)
          or exists (select from penstock_data.claims c where c.queue_id = p_queue_id and c.token = '' and p_message_id = any (c.message_ids))
          or exists (select from penstock_data.backlog b where b.queue_id = p_queue_id and b.message_id = p_message_id and not b.held) then 'scheduled'
    end
$$;
