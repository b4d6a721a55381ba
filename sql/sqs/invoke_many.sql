-- Requests of one action sorted by the queue that they are for: each queue with the places of its requests.
create or replace function pgqs_data.by_queue(p_requests jsonb[], p_contexts jsonb[])
returns table (queue pgqs_data.queue, context jsonb, places int[])
language sql stable as $$
    select pgqs_data.look_up(g.url, g.context), g.context, g.places
    from (
        select u.request ->> 'QueueUrl' as url, (array_agg(u.context))[1] as context, array_agg(u.place::int) as places
        from unnest(p_requests, p_contexts) with ordinality as u(request, context, place)
        group by u.request ->> 'QueueUrl', u.context ->> 'account', u.context ->> 'region'
    ) g
$$;

-- What a request gets whose queue is not there.
create or replace function pgqs_data.queueless(p_request jsonb, p_context jsonb) returns jsonb
language sql stable as $$
    select jsonb_build_object('__error', case when coalesce(p_request ->> 'QueueUrl', '') = '' then
        pgqs_data.error('MissingRequiredParameterException', 'The request must contain the parameter QueueUrl.')
        else pgqs_data.no_queue(p_context) end)
$$;

-- The actions on messages, for many requests to one queue.
create or replace function pgqs_data.perform(p_action text, p_queue pgqs_data.queue, p_requests jsonb[], p_contexts jsonb[]) returns jsonb[]
language plpgsql as $$
begin
    case p_action
        when 'SendMessage' then
            return pgqs_data.send(p_queue, p_requests, p_contexts);
        when 'DeleteMessage' then
            return pgqs_data.delete(p_queue, array(select coalesce(r ->> 'ReceiptHandle', '') from unnest(p_requests) r));
        when 'ChangeMessageVisibility' then
            return pgqs_data.change_visibility(p_queue,
                array(select coalesce(r ->> 'ReceiptHandle', '') from unnest(p_requests) r), array(select r ->> 'VisibilityTimeout' from unnest(p_requests) r));
        when 'ReceiveMessage' then
            return pgqs_data.receive_many(p_queue, p_requests, p_contexts);
        else
            return pgqs_data.batches(p_action, p_queue, p_requests, p_contexts);
    end case;
end
$$;

-- ReceiveMessage for many: those who want the same share one claim, filled in their order.  FIFO queues are served one by
-- one, because a group must not be shared out.
create or replace function pgqs_data.receive_many(p_queue pgqs_data.queue, p_requests jsonb[], p_contexts jsonb[]) returns jsonb[]
language plpgsql as $$
declare
    v_answers jsonb[] := array_fill('{}'::jsonb, array[cardinality(p_requests)]);
    v_group   record;
    v_answer  jsonb;
    v_place   int;
begin
    for v_group in
        select r.alike, array_agg(r.place::int order by r.place) as places,
            case when bool_and(r.common) then array_agg(coalesce((r.request ->> 'MaxNumberOfMessages')::int, 1) order by r.place) end as counts
        from (
            select u.request, u.place, not p_queue.fifo and pgqs_data.receive_fault(p_queue, u.request) is null as common,
                u.request - '{QueueUrl,MaxNumberOfMessages,WaitTimeSeconds}'::text[] as alike
            from unnest(p_requests) with ordinality as u(request, place)) r
        group by r.alike, r.common order by min(r.place)
    loop
        if v_group.counts is null or cardinality(v_group.places) = 1 then
            for v_at in 1 .. cardinality(v_group.places) loop
                v_answers[v_group.places[v_at]] := pgqs_data.try('ReceiveMessage', p_requests[v_group.places[v_at]], p_contexts[v_group.places[v_at]]);
            end loop;
        else
            for v_place, v_answer in
                select a.place, a.answer from pgqs_data.receive_shared(p_queue, v_group.alike, v_group.counts) with ordinality as a(answer, place)
            loop
                v_answers[v_group.places[v_place]] := v_answer;
            end loop;
        end if;
    end loop;
    return v_answers;
end
$$;

-- One claim for several receives that want the same, but for how many.
create or replace function pgqs_data.receive_shared(p_queue pgqs_data.queue, p_request jsonb, p_counts int[]) returns setof jsonb
language plpgsql as $$
declare
    v_token    text := pgqs_data.new_token();
    v_messages jsonb[];
    v_share    jsonb[];
    v_sizes    int[] := '{}';
begin
    if pgqs_data.is_over_limit(p_queue) then
        return query select jsonb_build_object('__error', pgqs_data.over_limit()) from unnest(p_counts);
        return;
    end if;
    v_messages := array(select jsonb_array_elements(pgqs_data.receive(
        p_queue, v_token, coalesce((p_request ->> 'VisibilityTimeout')::int, p_queue.visibility_timeout), (select sum(c) from unnest(p_counts) c)::int,
        pgqs_data.wanted_names(p_request), pgqs_data.texts_of(p_request, 'MessageAttributeNames'))));
    for v_at in 1 .. cardinality(p_counts) loop
        exit when v_messages = '{}';
        v_share := v_messages[:p_counts[v_at]];
        v_messages := v_messages[cardinality(v_share) + 1:];
        v_sizes := v_sizes || cardinality(v_share);
        return next jsonb_build_object('Messages', to_jsonb(v_share));
    end loop;
    if cardinality(v_sizes) > 1 then
        perform penstock_data.part_claims(p_queue.id, v_token, v_sizes);
    end if;
end
$$;

-- Perform an action in a subtransaction of its own; an error becomes part of the answer.
create or replace function pgqs_data.try(p_action text, p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_detail text;
begin
    return pgqs.invoke(p_action, p_request, p_context);
exception when sqlstate 'PQ400' then
    get stacked diagnostics v_detail = pg_exception_detail;
    return jsonb_build_object('__error', v_detail::jsonb || jsonb_build_object('message', sqlerrm));
end
$$;

-- Perform an action for many requests at once.  Answers come in the order of the requests; one that fails has the answer
-- {"__error": {"shape", "message", "query_code", "status"}} and does not hinder the others.  The actions on
-- messages cost little more than for one request, the others what they cost one by one.
create or replace function pgqs.invoke_many(action text, requests jsonb[], contexts jsonb[] default null) returns setof jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    v_answers jsonb[];
    v_some    jsonb[];
    v_group   record;
begin
    if penstock_data.caller() <> current_user then
        perform pgqs_data.check_right(action);
    end if;
    if action not in ('SendMessage', 'DeleteMessage', 'ChangeMessageVisibility', 'ReceiveMessage',
                      'SendMessageBatch', 'DeleteMessageBatch', 'ChangeMessageVisibilityBatch') then
        for v_place in 1 .. coalesce(cardinality(requests), 0) loop
            return next pgqs_data.try(action, requests[v_place], contexts[v_place]);
        end loop;
        return;
    end if;
    for v_group in select * from pgqs_data.by_queue(requests, contexts) loop
        if (v_group.queue).id is null then
            v_some := array(select pgqs_data.queueless(requests[p], contexts[p]) from unnest(v_group.places) p);
        elsif cardinality(v_group.places) = cardinality(requests) then
            return query select unnest(pgqs_data.perform(action, v_group.queue, requests, contexts));
            return;
        else
            v_some := pgqs_data.perform(action, v_group.queue,
                array(select requests[p] from unnest(v_group.places) p), array(select contexts[p] from unnest(v_group.places) p));
        end if;
        for v_at in 1 .. cardinality(v_group.places) loop
            v_answers[v_group.places[v_at]] := v_some[v_at];
        end loop;
    end loop;
    return query select unnest(v_answers);
end
$$;
comment on function pgqs.invoke_many(text, jsonb[], jsonb[]) is 'Perform an action of Amazon SQS for many requests at once.';
