-- Say that messages failed: they come back after delay_seconds, or else after the queue's backoff; with their attempts
-- used up they become dead letters.  Returns the ids whose claim the token still held.  Locks: the claims.
-- Roles: consumer, admin
create or replace function penstock.nack_messages(
    queue_name text, message_ids bigint[], token text, delay_seconds int default null, error text default null
) returns setof bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if delay_seconds is not null then
        perform penstock_data.check_range('delay_seconds', delay_seconds, 0, 31536000);
    end if;
    return query select * from penstock_data.give_up(queue_name, message_ids, token, 'failed', make_interval(secs => delay_seconds), error);
end
$$;
comment on function penstock.nack_messages(text, bigint[], text, int, text) is 'Report failed messages: they are retried later, or die.';

-- The same, and tells of each message that the token held whether it became a dead letter.
-- Roles: consumer, admin
create or replace function penstock.fail_messages(
    queue_name text, message_ids bigint[], token text, delay_seconds int default null, error text default null
) returns table (message_id bigint, dead boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_ids bigint[] := array(select * from penstock.nack_messages(queue_name, message_ids, token, delay_seconds, error));
begin
    -- A statement of its own: one does not see what it does itself.
    return query
        select u.id, exists (select from penstock_data.dead_letters d where d.queue_id = q.id and d.message_id = u.id)
        from penstock_data.queues q cross join unnest(v_ids) as u(id)
        where q.name = queue_name;
end
$$;
comment on function penstock.fail_messages(text, bigint[], text, int, text) is 'Report failed messages, and learn which of them died.';

-- Say that a message failed.  False: the token no longer holds it, nothing was changed.
-- Roles: consumer, admin
create or replace function penstock.nack_message(
    queue_name text, message_id bigint, token text, delay_seconds int default null, error text default null
) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from penstock.nack_messages(queue_name, array[message_id], token, delay_seconds, error));
end
$$;
comment on function penstock.nack_message(text, bigint, text, int, text) is 'Report a failed message: it is retried later, or dies.';

-- Send a message to the dead letters at once, whatever its attempts: trying again is of no use.
-- Roles: consumer, admin
create or replace function penstock.bury_message(queue_name text, message_id bigint, token text, error text default null) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from penstock_data.give_up(queue_name, array[message_id], token, 'dead', null, error));
end
$$;
comment on function penstock.bury_message(text, bigint, text, text) is 'Make a claimed message a dead letter at once.';
