-- Keep what a receive with an attempt id was given, and forget what is too old to be repeated.
create or replace function pgqs_data.remember_receive(p_queue_id bigint, p_attempt_id text, p_token text) returns void
language plpgsql as $$
declare
    v_now timestamptz := penstock_data.clock();
begin
    delete from pgqs_data.receive_attempts r where r.ctid = any (array(
        select o.ctid from pgqs_data.receive_attempts o where o.received_at < v_now - interval '5 minutes' limit 100 for update skip locked));
    insert into pgqs_data.receive_attempts (queue_id, attempt_id, token, message_ids, received_at)
    values (p_queue_id, p_attempt_id, p_token, array(
        select unnest(c.message_ids) from penstock_data.claims c where c.queue_id = p_queue_id and c.token = p_token order by c.first_id), v_now)
    on conflict (queue_id, attempt_id) do update
    set token = excluded.token, message_ids = excluded.message_ids, received_at = excluded.received_at;
end
$$;

-- The answer to a receive that repeats an earlier one within five minutes: the same messages with the same handles, and
-- their visibility timeout begins anew.  Null when it repeats none, or something happened to those messages since.
-- Locks: the queue's claim lock.
create or replace function pgqs_data.repeat_receive(p_queue pgqs_data.queue, p_attempt_id text, p_seconds int, p_request jsonb) returns jsonb
language plpgsql as $$
declare
    v_now    timestamptz := penstock_data.clock();
    v_before pgqs_data.receive_attempts;
    v_held   bigint[];
begin
    select * into v_before from pgqs_data.receive_attempts r
    where r.queue_id = p_queue.id and r.attempt_id = p_attempt_id and r.received_at > v_now - interval '5 minutes';
    if not found then
        return null;
    end if;
    perform penstock_data.lock_queue(p_queue.engine_name);
    v_held := array(
        select unnest(c.message_ids) from penstock_data.claims c
        where c.queue_id = p_queue.id and c.token = v_before.token and c.deadline > v_now);
    if not (v_held @> v_before.message_ids and v_before.message_ids @> v_held) then
        return null;
    end if;
    perform from penstock_data.set_deadline(p_queue.id, v_before.token, v_before.message_ids, p_seconds, interval '12 hours');
    return (
        select jsonb_agg(pgqs_data.shown_with_extras(p_queue, v_before.token, m.message, pgqs_data.wanted_names(p_request),
            pgqs_data.texts_of(p_request, 'MessageAttributeNames')) order by m.place)
        from (
            select (m.id, m.payload, m.headers, m.key, coalesce(u.attempt, 1), m.published_at, c.claimed_at)::pgqs_data.message as message,
                array_position(v_before.message_ids, u.id) as place
            from penstock_data.claims c
            cross join lateral unnest(c.message_ids, c.attempts) as u(id, attempt)
            cross join lateral (select * from penstock_data.messages m where m.topic_id = p_queue.topic_id and m.id = u.id limit 1) m
            where c.queue_id = p_queue.id and c.token = v_before.token offset 0) m);
end
$$;
