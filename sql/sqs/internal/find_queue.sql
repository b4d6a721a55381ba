-- A queue of the engine as SQS sees it; null when there is none.
create or replace function pgqs_data.queue_named(p_engine_name text) returns pgqs_data.queue
language sql stable as $$
    select (
        q.id, q.topic_id, q.name, t.name, q.ordering, q.ordering = 'fifo' and q.name like '%.fifo',
        case when q.name like '%/%' then split_part(q.name, '/', 1) else '000000000000' end,
        case when q.name like '%/%' then split_part(q.name, '/', 2) else 'us-east-1' end,
        case when q.name like '%/%' then split_part(q.name, '/', 3) else q.name end,
        coalesce(s.visibility_timeout, 30), coalesce(s.delay_seconds, 0), coalesce(s.maximum_message_size, 1048576),
        coalesce(s.receive_wait_seconds, 0), coalesce(s.content_based, false), coalesce(s.dedupe_scope, 'queue'),
        s.redrive_target, s.max_receive_count
    )::pgqs_data.queue
    from penstock_data.queues q
    join penstock_data.topics t on t.id = q.topic_id
    left join pgqs_data.queues s on s.queue_id = q.id
    where q.name = p_engine_name and (q.name not like '%.fifo' or q.ordering = 'fifo')
$$;

-- The queue that a QueueUrl means.  Errors: QueueDoesNotExist.
create or replace function pgqs_data.find_queue(p_url text, p_context jsonb) returns pgqs_data.queue
language plpgsql stable as $$
declare
    v_place record;
    v_queue pgqs_data.queue;
begin
    select * into v_place from pgqs_data.locate(p_url, p_context);
    if pgqs_data.is_valid_name(v_place.name) then
        v_queue := pgqs_data.queue_named(pgqs.engine_queue(v_place.account, v_place.region, v_place.name));
    end if;
    if v_queue.id is null then
        perform pgqs_data.raise(pgqs_data.no_queue(p_context));
    end if;
    return v_queue;
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
begin
    if coalesce(p_request ->> 'QueueUrl', '') = '' then
        perform pgqs_data.require(p_request, 'QueueUrl');
    end if;
    return pgqs_data.find_queue(p_request ->> 'QueueUrl', p_context);
end
$$;

-- One change of a queue's settings at a time.  Locks: a lock of the queue's name until the transaction ends.
create or replace function pgqs_data.lock_settings(p_engine_name text) returns void
language sql as $$
    select pg_advisory_xact_lock(1346719321, hashtext(p_engine_name))
$$;
