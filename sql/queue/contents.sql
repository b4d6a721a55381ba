-- The id of a queue for a caller that only looks at it.  Members of penstock_monitor may look at every queue, also at
-- one that is reserved for other roles.
create or replace function penstock_data.watched_queue(p_name text) returns bigint
language plpgsql stable as $$
declare
    v_id bigint;
begin
    if exists (
        select from pg_roles r where r.rolname = 'penstock_monitor' and pg_has_role(penstock_data.caller(), r.oid, 'member')
    ) then
        v_id := (select q.id from penstock_data.queues q where q.name = p_name);
        perform penstock_data.check_incarnation();
    end if;
    return coalesce(v_id, penstock_data.queue_id(p_name));
end
$$;

-- Is a message of the log noted as claimed ahead of the position?
create or replace function penstock_data.is_noted_ahead(p_queue_id bigint, p_xid xid8, p_id bigint) returns boolean
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
begin
    return exists (
        select from penstock_data.claimed_ahead a where a.queue_id = p_queue_id and a.xid = p_xid and a.message_id = p_id);
end
$$;

-- Has a queue still to read this message of its topic?  p_position as seen_position() yields it.
create or replace function penstock_data.is_unread(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_message penstock_data.messages
) returns boolean
language sql stable as $$
    select case
        when p_message.flagged and p_queue.ordering <> 'fifo' then
            not pg_visible_in_snapshot(p_message.xid, coalesce(p_position.flagged_to, p_position.flagged_from))
            or p_position.flagged_to is not null and not pg_visible_in_snapshot(p_message.xid, p_position.flagged_from)
               and (p_message.xid, p_message.id) > (p_position.flagged_xid, p_position.flagged_id)
        else
            not pg_visible_in_snapshot(p_message.xid, p_position.window_to)
            or p_position.last_id is not null and not pg_visible_in_snapshot(p_message.xid, p_position.window_from)
               and case when p_queue.direct then (p_message.xid, p_message.id) > (p_position.last_xid, p_position.last_id)
                   else p_message.id > p_position.last_id end
        end
        and penstock_data.matches(p_queue.filter, p_message.headers, p_message.payload)
        and (p_queue.starts_at is null or p_message.published_at >= p_queue.starts_at)
        and (p_position.ahead is null or not penstock_data.is_noted_ahead(p_queue.id, p_message.xid, p_message.id))
$$;

-- Is a message of the log unread, and its time not over?  Plain SQL, so that the planner puts it into the statement.
create or replace function penstock_data.may_be_ahead(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_message penstock_data.messages, p_now timestamptz
) returns boolean
language sql stable as $$
    select penstock_data.is_unread(p_queue, p_position, p_message)
        and (least(p_message.expires_at, p_message.published_at + p_queue.retention) <= p_now) is not true
$$;

-- What a queue has not read yet, for counting and looking; claims use narrower statements of their own.
create or replace function penstock_data.unread_messages(p_queue_id bigint) returns setof penstock_data.messages
language plpgsql stable rows 1000 as $$
declare
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
begin
    select * into v_queue from penstock_data.queues q where q.id = p_queue_id;
    v_position := penstock_data.seen_position(p_queue_id);
    return query
    select m.* from penstock_data.messages m
    where m.segment > 0 and m.topic_id = v_queue.topic_id
      and (m.xid >= pg_snapshot_xmin(v_position.window_from) or m.xid >= pg_snapshot_xmin(v_position.flagged_from))
      and penstock_data.is_unread(v_queue, v_position, m);
end
$$;

-- A page of it: p_limit messages above p_after, in the order of ids.  When little is unread, that little is fetched and
-- put in order; else the log is walked from p_after on, which finds a page soon unless much of it was read already.
create or replace function penstock_data.unread_page(p_queue_id bigint, p_after bigint, p_limit int)
returns setof penstock_data.messages
language plpgsql stable rows 100
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    c_little   constant int := 10000;
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
    v_visited  bigint;
    v_ids      bigint[];
begin
    select * into v_queue from penstock_data.queues q where q.id = p_queue_id;
    select count(*), array_agg(u.id order by u.id) filter (where u.unread and u.id > p_after) into v_visited, v_ids
    from penstock_data.unread_some(p_queue_id, 0, c_little) u;
    if v_visited < c_little then
        return query
        select m.* from unnest(v_ids[:p_limit]) as u(id)
        cross join lateral (
            select * from penstock_data.messages m where m.segment > 0 and m.topic_id = v_queue.topic_id and m.id = u.id limit 1) m;
        return;
    end if;
    v_position := penstock_data.seen_position(p_queue_id);
    return query
    select m.* from penstock_data.messages m
    where m.segment > 0 and m.topic_id = v_queue.topic_id and m.id > p_after
      and penstock_data.is_unread(v_queue, v_position, m)
    order by m.id limit p_limit;
end
$$;

-- Messages of a queue that have a place of their own: scheduled, or behind the head of their lane.
create or replace function penstock_data.scheduled_messages(p_queue_id bigint)
returns table (message_id bigint, visible_at timestamptz, attempt int)
language sql stable rows 100 as $$
    select s.message_id, s.visible_at, s.attempt from penstock_data.scheduled s where s.queue_id = p_queue_id
    union all
    select b.message_id, b.visible_at, b.attempt from penstock_data.backlog b where b.queue_id = p_queue_id and not b.held
$$;

-- Messages of a queue that are in slices, one row each.  They are waiting.
create or replace function penstock_data.sliced_messages(p_queue_id bigint)
returns table (message_id bigint, visible_at timestamptz, attempt int, lane text, history jsonb)
language sql stable rows 100 as $$
    select u.id, c.claimed_at, coalesce(u.attempt, 1) - 1, u.lane, c.histories -> u.id::text
    from penstock_data.claims c cross join lateral unnest(c.message_ids, c.attempts, c.lanes) as u(id, attempt, lane)
    where c.queue_id = p_queue_id and c.token = ''
$$;

-- Messages of a queue that are claimed, one row each.
create or replace function penstock_data.claimed_messages(p_queue_id bigint)
returns table (message_id bigint, attempt int, token text, deadline timestamptz, claimed_at timestamptz)
language sql stable rows 100 as $$
    select u.id, coalesce(u.attempt, 1), c.token, c.deadline, c.claimed_at
    from penstock_data.claims c cross join lateral unnest(c.message_ids, c.attempts) as u(id, attempt)
    where c.queue_id = p_queue_id and c.token <> ''
$$;

-- Messages of a queue that are done, one row each, as far as history goes.
create or replace function penstock_data.done_messages(p_queue_id bigint)
returns table (message_id bigint, attempt int, token text, outcome text, claimed_at timestamptz, ended_at timestamptz)
language sql stable rows 1000 as $$
    select u.id, coalesce(u.attempt, case when r.outcome = 'acked' then 1 else 0 end), r.token, r.outcome, r.claimed_at, r.ended_at
    from penstock_data.receipts r cross join lateral unnest(r.message_ids, r.attempts) as u(id, attempt)
    where r.queue_id = p_queue_id and r.outcome in ('acked', 'lapsed')
$$;

-- Every message of a queue with its status, as the view queue_messages shows it.  Security definer, because a view runs
-- its functions with the rights of the role that queries it.
create or replace function penstock_data.queue_messages(p_queue_id bigint)
returns table (
    message_id bigint, status text, vt timestamptz, consumer_token text, delivery_attempts int, created_at timestamptz,
    completed_at timestamptz
)
language sql stable security definer set search_path = pg_catalog, pg_temp rows 1000 as $$
    select u.id, 'pending', u.deliver_after, null::text, 0, u.published_at, null::timestamptz
    from penstock_data.unread_messages(p_queue_id) u
    union all
    select s.message_id, 'pending', s.visible_at, null, s.attempt, m.published_at, null
    from (
        select s.message_id, s.visible_at, s.attempt from penstock_data.scheduled_messages(p_queue_id) s
        union all select s.message_id, s.visible_at, s.attempt from penstock_data.sliced_messages(p_queue_id) s) s
    join penstock_data.queues q on q.id = p_queue_id
    left join penstock_data.messages m on m.topic_id = q.topic_id and m.id = s.message_id
    union all
    select c.message_id, 'processing', c.deadline, c.token, c.attempt, c.claimed_at, null
    from penstock_data.claimed_messages(p_queue_id) c
    union all
    select d.message_id, 'completed', null, d.token, d.attempt, coalesce(d.claimed_at, d.ended_at), d.ended_at
    from penstock_data.done_messages(p_queue_id) d
$$;
