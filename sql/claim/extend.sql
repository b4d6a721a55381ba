-- Claim messages for longer: each deadline moves by extension_seconds.  Returns those whose claim still held.
-- Locks: the claims.
-- Roles: consumer, admin
create or replace function penstock.batch_extend_message_vt(queue_name text, message_ids bigint[], token text, extension_seconds int)
returns table (message_id bigint, vt timestamptz)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue record;
    v_now   timestamptz;
begin
    select * into v_queue from penstock_data.queue_named(queue_name);
    if v_queue.ready is not true then
        perform penstock_data.check_queue(queue_name);
    end if;
    perform penstock_data.check_range('extension_seconds', extension_seconds, 0, 604800);
    v_now := clock_timestamp() + v_queue.clock_shift;
    return query
    with part as (
        select * from penstock_data.unclaim(v_queue.id, token, message_ids, v_now)
    ), renewed as (
        insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
        select p.queue_id, p.first_id, p.deadline + make_interval(secs => extension_seconds), p.claimed_at, p.token, p.message_ids, p.attempts, p.lanes, p.histories from part p
        returning message_ids, deadline
    )
    select unnest(r.message_ids), r.deadline from renewed r;
end
$$;
comment on function penstock.batch_extend_message_vt(text, bigint[], text, int) is 'Claim messages for longer.';

-- Claim a message for longer: its deadline moves by extension_seconds.  Null: the claim is lost.
-- Roles: consumer, admin
create or replace function penstock.extend_message_vt(queue_name text, message_id bigint, token text, extension_seconds int)
returns timestamptz
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select e.vt from penstock.batch_extend_message_vt(queue_name, array[message_id], token, extension_seconds) e);
end
$$;
comment on function penstock.extend_message_vt(text, bigint, text, int) is 'Claim a message for longer; null when the claim is lost.';
