-- The channel of a name: '<kind>:<name>', or for long names a cut with a hash, exactly 63 bytes.  A plain one is always
-- shorter, so two names never share a channel.
create or replace function penstock_data.channel(p_kind text, p_name text) returns text
language plpgsql immutable as $$
declare
    v_plain text := p_kind || ':' || p_name;
    v_cut   text;
begin
    if octet_length(v_plain) < 63 then
        return v_plain;
    end if;
    v_cut := left(v_plain, 30);
    while octet_length(v_cut) > 30 loop
        v_cut := left(v_cut, -1);
    end loop;
    return rpad(v_cut, char_length(v_cut) + 30 - octet_length(v_cut), '~') || '~' || md5(p_name);
end
$$;

-- Notify channels, each at most once in a transaction.
create or replace function penstock_data.notify(p_channels text[], p_message_id bigint) returns void
language plpgsql as $$
declare
    v_woken   text := coalesce(current_setting('penstock.woken', true), '');
    v_channel text;
begin
    foreach v_channel in array p_channels loop
        if position(chr(1) || v_channel || chr(1) in v_woken) = 0 then
            perform pg_notify(v_channel, p_message_id::text);
            v_woken := v_woken || chr(1) || v_channel || chr(1);
        end if;
    end loop;
    perform set_config('penstock.woken', v_woken, true);
end
$$;

-- Notify the consumers that wait for a topic, and the channels that are always notified.
create or replace function penstock_data.wake_topic(p_topic_id bigint, p_always text[], p_message_id bigint) returns void
language plpgsql as $$
declare
    v_now timestamptz := penstock_data.clock();
begin
    perform penstock_data.notify(
        p_always || array(select distinct w.channel from penstock_data.waiting w where w.topic_id = p_topic_id and w.until > v_now),
        p_message_id);
end
$$;

-- The same as a condition, which is always true.
create or replace function penstock_data.topic_woken(p_topic_id bigint, p_always text[], p_message_id bigint) returns boolean
language plpgsql as $$
begin
    perform penstock_data.wake_topic(p_topic_id, p_always, p_message_id);
    return true;
end
$$;

-- Notify the consumers that wait for a queue: a message has arrived that is due at p_due.  A consumer whose wait ends
-- by then is not notified, because it looks again anyway.
create or replace function penstock_data.wake_queue(p_queue_id bigint, p_message_id bigint, p_due timestamptz default '-infinity')
returns void
language plpgsql as $$
begin
    perform penstock_data.notify(c.channels, p_message_id)
    from (
        select array_agg(c.channel) as channels
        from (
            select w.channel
            from penstock_data.queues q join penstock_data.waiting w on w.topic_id = q.topic_id
            where q.id = p_queue_id and w.queue_id = p_queue_id and w.until > penstock_data.clock() and w.until > p_due
            union
            select penstock_data.channel('queue', q.name) from penstock_data.queues q where q.id = p_queue_id and q.notify = 'always'
        ) c
    ) c
    where c.channels is not null;
end
$$;

-- fifo: these lanes become free.  If one of them has a backlog, notify the consumers that wait for the queue.  Always
-- true, so that a statement can use it as a condition, where it costs nothing for messages without a lane.
create or replace function penstock_data.wake_lanes(p_queue_id bigint, p_lanes text[], p_message_id bigint) returns boolean
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
    if exists (
        select from penstock_data.queues q
        where q.id = p_queue_id and q.ordering = 'fifo'
          and (q.notify = 'always' or exists (
              select from penstock_data.waiting w
              where w.topic_id = q.topic_id and w.until > penstock_data.clock() and w.queue_id = q.id))
    ) and exists (
        select from unnest(p_lanes) as f(lane)
        cross join lateral (
            select l.last_rank from penstock_data.lanes l
            where l.queue_id = p_queue_id and l.lane = f.lane order by l.seq desc limit 1) l
        cross join lateral (
            select from penstock_data.backlog b
            where b.queue_id = p_queue_id and b.lane = f.lane and b.rank > l.last_rank order by b.rank limit 1) b
    ) then
        perform penstock_data.wake_queue(p_queue_id, p_message_id);
    end if;
    return true;
end
$$;
