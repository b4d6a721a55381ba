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

-- The actions on messages, for many requests to one queue; contexts as with pgqs_data.send_all.  Answers are JSON
-- texts.
create or replace function pgqs_data.answer_all(p_action text, p_queue pgqs_data.queue, p_requests jsonb[], p_contexts jsonb[]) returns text[]
language plpgsql as $$
begin
    case p_action
        when 'SendMessage' then
            return pgqs_data.send_all(p_queue, p_requests, p_contexts);
        when 'ReceiveMessage' then
            if cardinality(p_requests) = 1 then
                return array[pgqs_data.receive_for(p_queue, p_requests[1])];
            end if;
            return pgqs_data.receive_many(p_queue, p_requests);
        when 'DeleteMessage' then
            return pgqs_data.delete_all(p_queue, array(select coalesce(r ->> 'ReceiptHandle', '') from unnest(p_requests) r));
        when 'SendMessageBatch', 'DeleteMessageBatch', 'ChangeMessageVisibilityBatch' then
            return pgqs_data.answer_batches(p_action, p_queue, p_requests, p_contexts);
        when 'ChangeMessageVisibility' then
            return pgqs_data.change_visibilities(p_queue,
                array(select coalesce(r ->> 'ReceiptHandle', '') from unnest(p_requests) r), array(select r ->> 'VisibilityTimeout' from unnest(p_requests) r));
        else
            perform pgqs_data.fail('InvalidAction', format('The action %s is not about messages.', coalesce(p_action, 'null')));
    end case;
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

-- Perform an action for many requests at once.  Answers come in the order of the requests; one that fails has the
-- answer {"__error": {"shape", "message", "query_code", "status"}} and does not hinder the others.  The actions on
-- messages cost little more than for one request, the others what they cost one by one.
-- Roles: publisher, consumer, monitor, admin
create or replace function pgqs.invoke_many(action text, requests jsonb[], contexts jsonb[] default null) returns setof jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    v_answers text[];
    v_some    text[];
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
            v_some := array(select pgqs_data.queueless(requests[p], contexts[p])::text from unnest(v_group.places) p);
        elsif cardinality(v_group.places) = cardinality(requests) then
            return query select unnest(pgqs_data.answer_all(action, v_group.queue, requests, contexts))::jsonb;
            return;
        else
            v_some := pgqs_data.answer_all(action, v_group.queue,
                array(select requests[p] from unnest(v_group.places) p), array(select contexts[p] from unnest(v_group.places) p));
        end if;
        for v_at in 1 .. cardinality(v_group.places) loop
            v_answers[v_group.places[v_at]] := v_some[v_at];
        end loop;
    end loop;
    return query select unnest(v_answers)::jsonb;
end
$$;
comment on function pgqs.invoke_many(text, jsonb[], jsonb[]) is 'Perform an action of Amazon SQS for many requests at once.';
