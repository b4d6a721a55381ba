-- All about one message in one queue: where it is, what it holds, and its attempts so far, oldest first.
-- payload is text, cut after most_characters; payload_bytes is its whole size.  state as in message_state, or null when
-- neither the queue nor its history knows the message any more; no row when the message is gone altogether.
-- visible_at: since or until when it is due, when its claim ends, or when it died.  blocked_by: the message that holds
-- it up, its state and token, and until when.  Of a done message the last entry of history tells whether it was acked
-- or lapsed. 20,000 receipts are searched at most, from the message on and from now back.
-- Errors: PS002 unknown queue, PS005 most_characters, PS009 a queue reserved for others.
-- Roles: consumer, admin
create or replace function penstock.inspect_message(queue_name text, message_id bigint, most_characters int default 65536)
returns table (
    state text, payload text, payload_bytes bigint, headers jsonb, key text, priority int, delivery_attempts int,
    published_at timestamptz, visible_at timestamptz, expires_at timestamptz, correlation_id text, tenant_id text,
    token text, claimed_at timestamptz, last_error text, history jsonb,
    blocked_by bigint, blocked_by_state text, blocked_by_token text, blocked_until timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    c_most     constant int := 20000;
    v_queue_id bigint := penstock_data.queue_id(queue_name);
    v_queue    penstock_data.queues;
    v_message  penstock_data.messages;
    v_dead     penstock_data.dead_letters;
    v_receipts jsonb;
begin
    perform penstock_data.check_range('most_characters', most_characters, 1, 16777216);
    select * into v_queue from penstock_data.queues q where q.id = v_queue_id;
    select * into v_dead from penstock_data.dead_letters d where d.queue_id = v_queue_id and d.message_id = inspect_message.message_id;
    if v_dead.id is not null then
        return query
        select 'dead', left(v_dead.payload::text, most_characters), octet_length(v_dead.payload::text)::bigint, v_dead.headers, v_dead.key,
            v_dead.priority, v_dead.delivery_attempts, v_dead.published_at, v_dead.moved_at, v_dead.expires_at, v_dead.correlation_id,
            v_dead.tenant_id, null::text, null::timestamptz, v_dead.last_error, v_dead.history,
            null::bigint, null::text, null::text, null::timestamptz;
        return;
    end if;
    select * into v_message from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = inspect_message.message_id limit 1;
    if not found then
        return;
    end if;
    select jsonb_agg(jsonb_build_object('attempt', a.attempt, 'claimed_at', a.claimed_at, 'ended_at', a.ended_at,
        'outcome', a.outcome, 'error', a.error, 'token', a.token) order by a.ended_at)
    into v_receipts
    from (
        select r.claimed_at, r.ended_at, r.outcome, r.error, r.token,
            coalesce(r.attempts[array_position(r.message_ids, inspect_message.message_id)], 1) as attempt
        from (
            (select * from penstock_data.receipts r
             where r.queue_id = v_queue_id and r.xid >= v_message.xid order by r.xid limit c_most)
            union
            (select * from penstock_data.receipts r where r.queue_id = v_queue_id order by r.xid desc limit c_most)
        ) r
        where inspect_message.message_id = any (r.message_ids)
    ) a;
    return query
    select f.state, left(v_message.payload::text, most_characters), octet_length(v_message.payload::text)::bigint, v_message.headers,
        v_message.key, v_message.priority, coalesce(f.attempt, (v_receipts -> -1 ->> 'attempt')::int, 0), v_message.published_at, f.visible_at,
        v_message.expires_at, v_message.correlation_id, v_message.tenant_id, f.token, f.claimed_at,
        coalesce(f.history, v_receipts) -> -1 ->> 'error', coalesce(f.history, v_receipts, '[]'),
        f.blocked_by, f.blocked_by_state, f.blocked_by_token, f.blocked_until
    from (select null) one
    left join lateral (
        select 'claimed' as state, coalesce(u.attempt, 1) as attempt, c.deadline as visible_at, c.token, c.claimed_at,
            c.histories -> u.id::text as history, null::bigint as blocked_by, null::text as blocked_by_state,
            null::text as blocked_by_token, null::timestamptz as blocked_until
        from penstock_data.claims c cross join lateral unnest(c.message_ids, c.attempts) as u(id, attempt)
        where c.queue_id = v_queue_id and c.token <> '' and u.id = inspect_message.message_id
        union all
        select p.state, p.attempt, p.due_at, null, null, p.history, p.blocked_by, p.blocked_by_state, p.blocked_by_token, p.blocked_until
        from penstock_data.pending_messages(v_queue_id, greatest(inspect_message.message_id, 1) - 1, inspect_message.message_id, null) p
        union all
        select 'done', null, null, null, null, null, null, null, null, null where v_receipts -> -1 ->> 'outcome' in ('acked', 'lapsed')
        limit 1
    ) f on true;
end
$$;
comment on function penstock.inspect_message(text, bigint, int) is 'All about one message in one queue: state, payload, attempts.';
