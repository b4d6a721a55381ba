-- Of the messages that a token holds, those whose last attempt this is, after an attempt that ended without an answer.
-- One of them may have killed the consumer that held them then, or the consumer died for another reason.  A consumer
-- that must not lose the other messages it holds tries such a message alone.
-- Errors: PS002 unknown queue, PS009 a queue reserved for others.
-- Roles: consumer, admin
create or replace function penstock.suspect_messages(queue_name text, consumer_token text) returns setof bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue record;
begin
    select * into v_queue from penstock_data.queue_named(queue_name);
    if v_queue.ready is not true then
        perform penstock_data.check_queue(queue_name);
    end if;
    return query
    select u.id
    from penstock_data.claims c
    cross join unnest(c.message_ids, c.attempts) as u(id, attempt)
    where c.queue_id = v_queue.id and c.token = consumer_token and c.histories is not null
      and v_queue.max_delivery_attempts > 0 and u.attempt >= v_queue.max_delivery_attempts
      and c.histories -> u.id::text @> '[{"outcome": "expired"}]';
end
$$;
comment on function penstock.suspect_messages(text, text) is 'Which of the messages held may have killed their last consumer.';
