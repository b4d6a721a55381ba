-- What every call on a queue needs, in one indexed look: the queue, the clock, and whether anything stands in the way.
-- Plain SQL, stable and without settings of its own, so that the planner puts it into the calling statement.
create or replace function penstock_data.queue_named(p_name text)
returns table (
    id bigint, topic_id bigint, ordering text, direct boolean, max_delivery_attempts int, retry_base interval,
    retry_cap interval, retention interval, filter jsonb, starts_at timestamptz, notify text,
    clock_shift interval, receipt_segment int, ready boolean
)
language sql stable as $$
    select
        q.id, q.topic_id, q.ordering, q.direct, q.max_delivery_attempts, q.retry_base,
        q.retry_cap, q.retention, q.filter, q.starts_at, q.notify,
        s.clock_shift, s.receipt_segment,
        i.xmin = s.incarnation_xid and current_setting('penstock.at_home', true) = 'yes' and q.consumers is null and not q.exclusive
    from penstock_data.queues q, penstock_data.settings s, penstock_data.incarnation i
    where q.name = p_name and s.single and i.single
$$;

-- What finishing messages needs: the queue, the segment for receipts, the time, and whether anything stands in the way.
-- Part of the calling statement like the one above.
create or replace function penstock_data.queue_to_ack(p_name text)
returns table (id bigint, receipt_segment int, now timestamptz, ready boolean)
language sql stable as $$
    select q.id, s.receipt_segment, clock_timestamp() + s.clock_shift,
        q.consumers is null and not q.exclusive and current_setting('penstock.at_home', true) = 'yes'
    from penstock_data.queues q, penstock_data.settings s
    where q.name = p_name and s.single
$$;

-- Why it is not ready: raise the error, or return quietly when the caller is let through.
create or replace function penstock_data.check_ack(p_name text) returns void
language plpgsql as $$
begin
    perform penstock_data.check_queue(p_name);
    perform penstock_data.check_at_home();
end
$$;

-- The same for a topic; awaited tells whether a consumer may be waiting for it.  The time is the start of the caller's
-- statement and not the clock: an index can't look up a volatile function, and the planner would not put this function
-- into the calling statement.  wake_topic looks again.
create or replace function penstock_data.topic_named(p_name text)
returns table (
    id bigint, segment int, clock_shift interval, max_payload_bytes int, dedupe_window interval,
    always text[], awaited boolean, ready boolean
)
language sql stable as $$
    select
        t.id, s.message_segment, s.clock_shift, s.max_payload_bytes, s.dedupe_window, t.always,
        exists (
            select from penstock_data.waiting w
            where w.topic_id = t.id and w.until > statement_timestamp() + s.clock_shift
        ),
        s.incarnation_xid = (select i.xmin from penstock_data.incarnation i where i.single)
            and current_setting('penstock.at_home', true) = 'yes' and t.publishers is null and not s.log_is_full
    from penstock_data.topics t, penstock_data.settings s
    where t.name = p_name and s.single
$$;

-- Raise when the log's transaction ids belong to another cluster.  Looks at all signs once in a session: a session
-- never outlives a restore.
create or replace function penstock_data.check_incarnation() returns void
language plpgsql as $$
begin
    if (current_setting('penstock.at_home', true) in ('yes', 'standby')
        and (select i.xmin = s.incarnation_xid from penstock_data.settings s, penstock_data.incarnation i)) is not true then
        perform penstock_data.check_at_home();
    end if;
end
$$;

-- The same, with a look at all signs, and a note for the rest of the session.  On a standby the note does not let
-- claims through, which have a check of their own for it.  p_most as in stored_ahead: the first call of a session costs
-- the same with any number of queues.
create or replace function penstock_data.check_at_home(p_most int default 100) returns void
language plpgsql as $$
declare
    v_fault text := penstock_data.foreign_log(p_most);
begin
    if v_fault is not null then
        perform penstock_data.fail('PS010', v_fault);
    end if;
    perform set_config('penstock.at_home', case when pg_is_in_recovery() then 'standby' else 'yes' end, false);
end
$$;

-- Why a queue is not ready: raise the error, or return quietly when the caller is let through.
create or replace function penstock_data.check_queue(p_name text) returns void
language plpgsql as $$
declare
    v_queue record;
begin
    perform penstock_data.check_name('queue', p_name);
    select q.id, q.consumers, q.exclusive, k.until into v_queue
    from penstock_data.queues q left join penstock_data.keep_alives k on k.queue_id = q.id
    where q.name = p_name;
    if not found then
        perform penstock_data.fail('PS002', format('queue %L does not exist', p_name));
    elsif v_queue.exclusive and v_queue.until <= penstock_data.clock() then
        perform penstock_data.fail('PS008', format('exclusive queue %L ended at %s', p_name, v_queue.until));
    elsif not penstock_data.is_permitted(v_queue.consumers) then
        perform penstock_data.fail('PS009', format('role %I may not use queue %L', penstock_data.caller(), p_name));
    end if;
    perform penstock_data.check_incarnation();
end
$$;

-- Why a topic is not ready: raise the error, or return quietly when the caller is let through.
create or replace function penstock_data.check_topic(p_name text) returns void
language plpgsql as $$
declare
    v_topic penstock_data.topics;
begin
    perform penstock_data.check_name('topic', p_name);
    select * into v_topic from penstock_data.topics t where t.name = p_name;
    if not found then
        perform penstock_data.fail('PS001', format('topic %L does not exist', p_name));
    elsif not penstock_data.is_permitted(v_topic.publishers) then
        perform penstock_data.fail('PS009', format('role %I may not publish to topic %L', penstock_data.caller(), p_name));
    elsif (select s.log_is_full from penstock_data.settings s) then
        perform penstock_data.fail('PS013', 'the log is full, nothing is published until it shrinks');
    end if;
    perform penstock_data.check_incarnation();
end
$$;

-- The id of a queue that exists, for calls that are not in a hurry.
create or replace function penstock_data.queue_id(p_name text) returns bigint
language plpgsql as $$
begin
    perform penstock_data.check_queue(p_name);
    return (select q.id from penstock_data.queues q where q.name = p_name);
end
$$;

-- The id of a topic that exists, for those who do not publish to it.
create or replace function penstock_data.topic_id(p_name text) returns bigint
language plpgsql stable as $$
declare
    v_id bigint;
begin
    perform penstock_data.check_name('topic', p_name);
    select t.id into v_id from penstock_data.topics t where t.name = p_name;
    if not found then
        perform penstock_data.fail('PS001', format('topic %L does not exist', p_name));
    end if;
    perform penstock_data.check_incarnation();
    return v_id;
end
$$;
