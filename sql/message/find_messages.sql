-- A page of a queue's messages in one state, without claiming them and without their payloads: 'waiting', 'blocked',
-- 'delayed', 'retrying', 'claimed' or 'dead', as message_state tells it, or 'scheduled' (delayed or retrying); and of
-- those only the ones with this key, this correlation id, or headers that contain these.
-- visible_at: since or until when it is due, when its claim ends, or when it died.  blocked_by: the message that holds
-- it up, its state and token, and until when.
-- after: the `place` of the last row of the page before.  A call visits 10,000 messages at most: when it stopped there
-- with a page that is not full, a last row without a message_id tells the place to go on from.
-- Errors: PS002 unknown queue, PS005 state, after or page_size, PS009 a queue reserved for others.
-- Roles: consumer, admin
create or replace function penstock.find_messages(
    queue_name text, state text, after text default '', page_size int default 50, key text default null,
    correlation_id text default null, headers jsonb default null
)
returns table (
    place text, message_id bigint, message_key text, message_correlation_id text, message_headers jsonb, priority int,
    delivery_attempts int, published_at timestamptz, visible_at timestamptz, token text, last_error text,
    blocked_by bigint, blocked_by_state text, blocked_by_token text, blocked_until timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    c_most     constant int := 10000;
    v_queue_id bigint := penstock_data.queue_id(queue_name);
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
    v_states   text[] := case when state = 'scheduled' then '{delayed,retrying}' else array[state] end;
    v_now      timestamptz := penstock_data.clock();
    v_source   text := left(after, 1);
    v_after    bigint;
    v_found    int;
    v_visited  text;        -- the last place that was visited, when there may be more behind it
begin
    perform penstock_data.check_range('page_size', page_size, 1, 1000);
    if state is null or state not in ('waiting', 'blocked', 'delayed', 'retrying', 'scheduled', 'claimed', 'dead') then
        perform penstock_data.fail('PS005', format('state must be waiting, blocked, delayed, retrying, scheduled, claimed or dead, not %L', state));
    elsif after is null or after !~ '^([sucd]\d{1,18})?$' then
        perform penstock_data.fail('PS005', format('after must be the place of a row, not %L', after));
    end if;
    v_after := coalesce(nullif(substr(after, 2), ''), '0')::bigint;
    select * into v_queue from penstock_data.queues q where q.id = v_queue_id;
    v_position := penstock_data.seen_position(v_queue_id);

    -- Those with a place of their own come first: they are retries, priorities, or heads of their lanes.
    if state not in ('claimed', 'dead') and v_source in ('', 's') then
        return query
        with visited as materialized (
            select s.* from (
                (select s.message_id, s.visible_at, s.attempt, s.history, s.lane, coalesce(b.rank, 0) as lane_place,
                    s.attempt = 0 and s.history is null and s.xid is null as fresh
                from penstock_data.scheduled s
                left join lateral (
                    select b.rank from penstock_data.backlog b
                    where v_queue.runs and b.queue_id = v_queue_id and b.message_id = s.message_id and b.held order by b.rank limit 1) b on true
                where s.queue_id = v_queue_id and s.message_id > v_after order by s.message_id limit c_most)
                union all
                (select b.message_id, b.visible_at, b.attempt, b.history, b.lane, b.rank, b.attempt = 0 and b.history is null
                from penstock_data.backlog b
                where b.queue_id = v_queue_id and not b.held and b.message_id > v_after order by b.message_id limit c_most)
                union all
                (select s.message_id, s.visible_at, s.attempt, s.history, s.lane, 0, s.attempt = 0
                from penstock_data.sliced_messages(v_queue_id) s where s.message_id > v_after)
            ) s order by s.message_id limit c_most
        ), holders as materialized (
            select h.* from penstock_data.lane_holders(v_queue, v_position, v_now, null, c_most) h where v_queue.ordering = 'fifo'
        ), fitting as materialized (
            select s.*, h.message_id as blocked_by, h.state as blocked_by_state, h.token as blocked_by_token, h.until as blocked_until
            from visited s left join holders h on h.lane = s.lane and h.place < s.lane_place and s.visible_at <= v_now
            where penstock_data.pending_state(s.visible_at <= v_now, s.attempt, h.message_id is not null) = any (v_states)
        )
        select 's' || m.id, m.id, m.key, m.correlation_id, m.headers, m.priority, s.attempt, m.published_at,
            penstock_data.due_since(s.visible_at, s.fresh, m.xid, m.published_at, m.deliver_after), null::text, s.history -> -1 ->> 'error',
            s.blocked_by, s.blocked_by_state, s.blocked_by_token, s.blocked_until
        from (select * from fitting s order by s.message_id) s
        cross join lateral (
            select * from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = s.message_id limit 1) m
        where penstock_data.is_sought(m, find_messages.key, find_messages.correlation_id, find_messages.headers)
        order by s.message_id limit page_size;
        get diagnostics v_found = row_count;
        page_size := page_size - v_found;
        if page_size > 0 then
            select 's' || max(s.message_id) into v_visited
            from (
                select s.message_id from (
                    (select s.message_id from penstock_data.scheduled s
                    where s.queue_id = v_queue_id and s.message_id > v_after order by s.message_id limit c_most)
                    union all
                    (select b.message_id from penstock_data.backlog b
                    where b.queue_id = v_queue_id and not b.held and b.message_id > v_after order by b.message_id limit c_most)
                    union all
                    (select s.message_id from penstock_data.sliced_messages(v_queue_id) s where s.message_id > v_after)
                ) s order by s.message_id limit c_most) s
            having count(*) = c_most;
        end if;
        v_after := 0;
    end if;
    -- In order before the messages are looked up: a page needs few of them.
    if state not in ('claimed', 'dead', 'retrying') and page_size > 0 and v_visited is null then
        return query
        with holders as materialized (
            select h.* from penstock_data.lane_holders(v_queue, v_position, v_now, null, c_most) h where v_queue.ordering = 'fifo'
        ), visited as materialized (
            select u.id, u.rank, h.message_id as blocked_by, h.state as blocked_by_state, h.token as blocked_by_token, h.until as blocked_until
            from penstock_data.unread_some(v_queue_id, v_after, c_most)
                with ordinality as u(id, published_at, deliver_after, unread, key, lane_place, rank)
            left join holders h on h.lane = coalesce(u.key, '') and h.place < u.lane_place and u.deliver_after > v_now is not true
            where u.unread and penstock_data.pending_state(u.deliver_after > v_now is not true, 0, h.message_id is not null) = any (v_states)
        )
        select 'u' || m.id, m.id, m.key, m.correlation_id, m.headers, m.priority, 0, m.published_at, greatest(m.published_at, m.deliver_after),
            null::text, null::text, u.blocked_by, u.blocked_by_state, u.blocked_by_token, u.blocked_until
        from (select * from visited u order by u.rank) u
        cross join lateral (
            select * from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = u.id limit 1) m
        where penstock_data.is_sought(m, find_messages.key, find_messages.correlation_id, find_messages.headers)
        order by u.rank limit page_size;
        get diagnostics v_found = row_count;
        -- Messages for later are looked for at the head only, where those are that no claim has seen.
        if v_found < page_size and state in ('waiting', 'blocked') then
            select 'u' || (array_agg(u.id order by u.rank desc))[1] into v_visited
            from penstock_data.unread_some(v_queue_id, v_after, c_most) with ordinality as u(id, published_at, deliver_after, unread, key, lane_place, rank)
            having count(*) >= c_most;
        end if;
    elsif state = 'claimed' then
        return query
        select 'c' || c.id, c.id, m.key, m.correlation_id, m.headers, m.priority, c.attempt, m.published_at, c.deadline, c.token, c.error,
            null::bigint, null::text, null::text, null::timestamptz
        from (
            select u.id, coalesce(u.attempt, 1) as attempt, c.deadline, c.token, c.histories -> u.id::text -> -1 ->> 'error' as error
            from (select * from penstock_data.claims c where c.queue_id = v_queue_id and c.token <> '' limit c_most) c
            cross join lateral unnest(c.message_ids, c.attempts) as u(id, attempt)
            where u.id > v_after order by u.id limit c_most) c
        cross join lateral (
            select * from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = c.id limit 1) m
        where penstock_data.is_sought(m, find_messages.key, find_messages.correlation_id, find_messages.headers)
        order by c.id limit page_size;
    elsif state = 'dead' then
        return query
        select 'd' || d.message_id, d.message_id, d.key, d.correlation_id, d.headers, d.priority, d.delivery_attempts, d.published_at,
            d.moved_at, null::text, d.last_error, null::bigint, null::text, null::text, null::timestamptz
        from (
            select * from penstock_data.dead_letters d
            where d.queue_id = v_queue_id and d.message_id > v_after order by d.message_id limit c_most) d
        where (find_messages.key is null or d.key = find_messages.key)
          and (find_messages.correlation_id is null or d.correlation_id = find_messages.correlation_id)
          and (find_messages.headers is null or d.headers @> find_messages.headers)
        order by d.message_id limit page_size;
        get diagnostics v_found = row_count;
        if v_found < page_size then
            select 'd' || max(d.message_id) into v_visited
            from (select d.message_id from penstock_data.dead_letters d
                  where d.queue_id = v_queue_id and d.message_id > v_after order by d.message_id limit c_most) d
            having count(*) = c_most;
        end if;
    end if;
    if v_visited is not null then
        place := v_visited;
        return next;
    end if;
end
$$;
comment on function penstock.find_messages(text, text, text, int, text, text, jsonb) is
    'A page of a queue''s messages in one state, found by key, correlation id or headers.';
