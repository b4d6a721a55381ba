-- Looking at queues cheaply: every walk ends after a number of rows, however long the backlog and the log are.

-- What a queue has not read yet, in the order in which it will, after the message p_after (0: from the head).  p_limit
-- bounds the rows that are visited, so those that are no longer unread are told as well, with unread = false.
-- place: fifo, as unread_place tells it.
create or replace function penstock_data.unread_some(p_queue_id bigint, p_after bigint, p_limit int)
returns table (id bigint, published_at timestamptz, deliver_after timestamptz, unread boolean, key text, place bigint)
language plpgsql stable rows 1000
set plan_cache_mode = force_generic_plan
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    c_last     constant xid8 := '18446744073709551615';
    v_queue    penstock_data.queues;
    v_fifo     boolean;
    v_position penstock_data.positions;
    v_apart    xid8[];                  -- transactions that are looked up one by one
    v_flagged  xid8 := c_last;          -- flagged messages from here on have not been scheduled
    v_xid      xid8;                    -- the plain part begins behind this place
    v_id       bigint;
    v_window   xid8;                    -- plain messages before it were read, or are looked up one by one
begin
    select * into v_queue from penstock_data.queues q where q.id = p_queue_id;
    v_fifo := v_queue.ordering = 'fifo';
    v_position := penstock_data.seen_position(p_queue_id);
    if v_position.queue_id is null then
        return;
    end if;
    v_apart := penstock_data.open_xids(v_position.window_from) || penstock_data.open_xids(v_position.window_to);
    if not v_fifo then
        v_apart := v_apart || penstock_data.open_xids(v_position.flagged_from);
        v_flagged := pg_snapshot_xmax(v_position.flagged_from);
    end if;

    if p_after = 0 then
        return query
        select m.id, m.published_at, m.deliver_after, penstock_data.is_unread(v_queue, v_position, m), m.key,
            case when v_fifo then penstock_data.unread_place(v_position.window_to, m.xid, m.id) end
        from (select distinct a.xid from unnest(v_apart) as a(xid)) a
        cross join lateral (
            select * from penstock_data.messages m
            -- One xid as a range: docs/internals/windows.md, "Two scans".
            where m.segment > 0 and m.topic_id = v_queue.topic_id and m.xid between a.xid and a.xid
            order by m.xid, m.id limit p_limit) m
        limit p_limit;
        return query
        select m.id, m.published_at, m.deliver_after, penstock_data.is_unread(v_queue, v_position, m), m.key,
            case when v_fifo then penstock_data.unread_place(v_position.window_to, m.xid, m.id) end
        from penstock_data.messages m
        where m.segment > 0 and m.topic_id = v_queue.topic_id and m.flagged and m.xid >= v_flagged and m.xid <> all (v_apart)
        order by m.xid, m.id limit p_limit;
    end if;

    -- Queues that read a window by ids.
    if not v_queue.direct and v_position.last_id is not null then
        return query
        select m.id, m.published_at, m.deliver_after, penstock_data.is_unread(v_queue, v_position, m), m.key,
            case when v_fifo then penstock_data.unread_place(v_position.window_to, m.xid, m.id) end
        from penstock_data.messages m
        where m.segment > 0 and m.topic_id = v_queue.topic_id and m.id > greatest(v_position.last_id, p_after)
          and (not m.flagged or v_fifo) and m.xid <> all (v_apart)
        order by m.id limit p_limit;
        return;
    end if;
    v_xid := coalesce(v_position.last_xid, '0');
    v_id := coalesce(v_position.last_id, 0);
    -- A page goes on behind its last message, unless the queue has gone further meanwhile.
    select m.xid, m.id into v_xid, v_id
    from (
        select v_xid as xid, v_id as id
        union all
        select m.xid, m.id from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = p_after and p_after > 0
    ) m
    order by m.xid desc, m.id desc limit 1;
    -- One bound, not two: an index is entered at the first of them, and walked up to the other.
    v_window := pg_snapshot_xmax(case when v_position.last_id is null then v_position.window_to else v_position.window_from end);
    if v_xid < v_window then
        v_xid := v_window;
        v_id := 0;
    end if;
    return query
    select m.id, m.published_at, m.deliver_after, penstock_data.is_unread(v_queue, v_position, m), m.key,
        case when v_fifo then penstock_data.unread_place(v_position.window_to, m.xid, m.id) end
    from penstock_data.messages m
    where m.segment > 0 and m.topic_id = v_queue.topic_id and (m.xid, m.id) > (v_xid, v_id)
      and (not m.flagged or v_fifo) and m.xid <> all (v_apart)
    order by m.xid, m.id limit p_limit;
end
$$;

-- Has a queue anything to read?  Nearly always the first message says so, or there is none; one with a filter may pass
-- over many that are not for it.
create or replace function penstock_data.has_unread(p_queue_id bigint) returns boolean
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
    c_most    constant int := 10000;
    v_limit   int := 1;
    v_visited bigint;
    v_found   boolean;
begin
    loop
        select count(*), bool_or(u.unread) into v_visited, v_found from penstock_data.unread_some(p_queue_id, 0, v_limit) u;
        if v_found then
            return true;
        elsif v_limit >= c_most or v_visited < v_limit then
            exit;
        end if;
        v_limit := v_limit * 100;
    end loop;
    if v_visited < v_limit then
        -- All of it was visited, unless a window is being read by ids, which says nothing of what lies behind it.
        if (select q.direct from penstock_data.queues q where q.id = p_queue_id) then
            return false;
        elsif (select p.last_id is null from penstock_data.position_of(p_queue_id) p) then
            return false;
        end if;
    end if;
    return exists (select from penstock_data.unread_messages(p_queue_id));
end
$$;

-- Receipts of a queue that one snapshot sees and an earlier one does not, p_limit at most.
create or replace function penstock_data.receipts_between(p_queue_id bigint, p_from pg_snapshot, p_to pg_snapshot, p_limit int)
returns setof penstock_data.receipts
language sql stable rows 100 as $$
    (select r.* from unnest(penstock_data.late_xids(p_from, p_to)) as late(xid)
    cross join lateral (
        select * from penstock_data.receipts r where r.queue_id = p_queue_id and r.xid = late.xid order by r.xid limit p_limit) r
    limit p_limit)
    union all
    (select r.* from penstock_data.receipts r
    where r.queue_id = p_queue_id and r.xid >= pg_snapshot_xmax(p_from) and r.xid < pg_snapshot_xmax(p_to)
      and r.xid <> all (penstock_data.open_xids(p_to))
    order by r.xid limit p_limit)
$$;

-- How many messages of a topic one snapshot sees and an earlier one does not, counted up to p_limit.
create or replace function penstock_data.published_between(p_topic_id bigint, p_from pg_snapshot, p_to pg_snapshot, p_limit int)
returns bigint
language sql stable as $$
    select (
        select count(*) from (
            select from unnest(penstock_data.late_xids(p_from, p_to)) as late(xid)
            cross join lateral (
                select from penstock_data.messages m
                -- One xid as a range: docs/internals/windows.md, "Two scans".
                where m.segment > 0 and m.topic_id = p_topic_id and m.xid between late.xid and late.xid order by m.xid, m.id limit p_limit) m
            limit p_limit) late
    ) + (
        select count(*) from (
            select from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_topic_id and m.xid >= pg_snapshot_xmax(p_from) and m.xid < pg_snapshot_xmax(p_to)
              and m.xid <> all (penstock_data.open_xids(p_to))
            order by m.xid, m.id limit p_limit) plain)
$$;

-- Which queues, readers and topics still need a closed segment of the log: twenty of them at most.
create or replace function penstock_data.held_by(p_segment int, p_closed_at timestamptz, p_now timestamptz) returns text[]
language sql stable as $$
    select array(select distinct h.holder from penstock_data.segment_holders(p_segment, p_closed_at, p_now) as h(holder) order by 1 limit 20)
$$;

-- Is this one of the messages that the caller looks for?  A null argument is not compared.
create or replace function penstock_data.is_sought(p_message penstock_data.messages, p_key text, p_correlation_id text, p_headers jsonb)
returns boolean
language sql immutable as $$
    select (p_key is null or p_message.key = p_key)
        and (p_correlation_id is null or p_message.correlation_id = p_correlation_id)
        and (p_headers is null or p_message.headers @> p_headers)
$$;
