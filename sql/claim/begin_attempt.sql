-- Begin the attempt of a claimed message: from now on it counts, also if it was deferred (defer_suspects).  A second
-- call changes nothing.  False: the token no longer holds the message.  Locks: the claim.
-- Errors: PS002 unknown queue, PS009 a queue reserved for others.
-- Roles: consumer, admin
create or replace function penstock.begin_attempt(queue_name text, message_id bigint, token text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue record;
begin
    select * into v_queue from penstock_data.queue_named(queue_name);
    if v_queue.ready is not true then
        perform penstock_data.check_queue(queue_name);
    end if;
    insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
    select p.queue_id, p.first_id, p.deadline, p.claimed_at, p.token, p.message_ids, p.attempts, p.lanes,
        coalesce(p.histories, '{}') || '{"begun": true}'
    from penstock_data.unclaim(v_queue.id, begin_attempt.token, array[begin_attempt.message_id], clock_timestamp() + v_queue.clock_shift) p;
    return found;
end
$$;
comment on function penstock.begin_attempt(text, bigint, text) is 'Begin the attempt of a claimed message, which counts from now on.';
