-- A queue of the engine as SQS sees it; no row when there is none.  Part of the calling statement, for the sake of
-- speed.
create or replace function pgqs_data.queue_row(p_engine_name text) returns setof pgqs_data.queue
language sql stable rows 1 as $$
    select
        q.id, q.topic_id, q.name, t.name, q.ordering, q.ordering = 'fifo' and q.name like '%.fifo',
        case when q.name like '%/%' then split_part(q.name, '/', 1) else '000000000000' end,
        case when q.name like '%/%' then split_part(q.name, '/', 2) else 'us-east-1' end,
        case when q.name like '%/%' then split_part(q.name, '/', 3) else q.name end,
        coalesce(s.visibility_timeout, 30), coalesce(s.delay_seconds, 0), coalesce(s.maximum_message_size, 1048576),
        coalesce(s.receive_wait_seconds, 0), coalesce(s.content_based, false), coalesce(s.dedupe_scope, 'queue'),
        s.redrive_target, s.max_receive_count, y.id, y.max_in_flight
    from penstock_data.queues q
    join penstock_data.topics t on t.id = q.topic_id
    cross join pgqs_data.system y
    left join pgqs_data.queues s on s.queue_id = q.id
    where q.name = p_engine_name and y.single and (q.ordering = 'fifo' or q.name not like '%.fifo')
$$;

-- The same as a value; null when there is none.
create or replace function pgqs_data.queue_named(p_engine_name text) returns pgqs_data.queue
language plpgsql stable as $$
declare
    v_queue pgqs_data.queue;
begin
    select * into v_queue from pgqs_data.queue_row(p_engine_name);
    return v_queue;
end
$$;

-- The queue that a QueueUrl means, null when there is none: a URL of any form, a path, or a bare name.  What it does
-- not say comes from the context.
create or replace function pgqs_data.look_up(p_url text, p_context jsonb) returns pgqs_data.queue
language plpgsql stable as $$
declare
    c_region  constant text := '^[a-z]{2,3}(?:-[a-z]+)+-\d+$';
    v_parts   text[] := string_to_array(rtrim(split_part(p_url, '?', 1), '/'), '/');
    v_count   int := cardinality(v_parts);
    v_account text := v_parts[v_count - 1];
    v_region  text;
begin
    if v_account ~ '^\d{12}$' then
        v_region := v_parts[v_count - 2];
        if v_region !~ c_region then
            -- sqs.<region>.amazonaws.com, <region>.queue.amazonaws.com
            v_region := split_part(v_parts[3], '.', case when v_parts[3] like 'sqs.%' then 2 when v_parts[3] like '%.queue.%' then 1 else 9 end);
        end if;
    else
        v_account := p_context ->> 'account';
    end if;
    if v_region !~ c_region then
        v_region := null;
    end if;
    if pgqs_data.is_valid_name(v_parts[v_count]) then
        return pgqs_data.queue_named(pgqs.engine_queue(v_account, coalesce(v_region, p_context ->> 'region'), v_parts[v_count]));
    end if;
    return null;
end
$$;

-- The error for a queue that is not there; the two protocols word it differently.
create or replace function pgqs_data.no_queue(p_context jsonb) returns jsonb
language sql stable as $$
    select pgqs_data.error('QueueDoesNotExist', case when p_context ->> 'protocol' = 'query'
        then 'The specified queue does not exist for this wsdl version.' else 'The specified queue does not exist.' end)
$$;

-- The queue of a request.  Errors: MissingParameter, QueueDoesNotExist.
create or replace function pgqs_data.queue_of(p_request jsonb, p_context jsonb) returns pgqs_data.queue
language plpgsql stable as $$
declare
    v_queue pgqs_data.queue := pgqs_data.look_up(p_request ->> 'QueueUrl', p_context);
begin
    if v_queue.id is null then
        perform pgqs_data.require(p_request, 'QueueUrl');
        perform pgqs_data.raise(pgqs_data.no_queue(p_context));
    end if;
    return v_queue;
end
$$;

-- One sender of a FIFO queue at a time, so that its sequence numbers grow in the order of commits.
-- Locks: the row of the queue until the transaction ends; a queue that SQS did not create may have none, then its name.
create or replace function pgqs_data.lock_senders(p_queue pgqs_data.queue) returns void
language plpgsql as $$
begin
    perform from pgqs_data.queues s where s.queue_id = p_queue.id for no key update;
    if not found then
        perform penstock_data.lock_name('senders', p_queue.engine_name);
    end if;
end
$$;

-- One change of a queue's settings at a time.  Locks: a lock of the queue's name until the transaction ends.
create or replace function pgqs_data.lock_settings(p_engine_name text) returns void
language sql as $$
    select penstock_data.lock_name('settings', p_engine_name)
$$;
