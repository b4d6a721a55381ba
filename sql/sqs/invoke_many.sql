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

-- SendMessage, DeleteMessage, ChangeMessageVisibility and ReceiveMessage for many requests to one queue.
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
    end case;
end
$$;

-- ReceiveMessage for many: those who want the same visibility share one claim, filled in their order.  FIFO queues and
-- repeated receives are served one by one: a group must not be shared out.
create or replace function pgqs_data.receive_many(p_queue pgqs_data.queue, p_requests jsonb[], p_contexts jsonb[]) returns jsonb[]
language plpgsql as $$
declare
    v_answers  jsonb[] := array_fill('{}'::jsonb, array[cardinality(p_requests)]);
    v_group    record;
    v_token    text;
    v_messages pgqs_data.message[];
    v_shares   jsonb := '[]';
    v_share    pgqs_data.message[];
begin
    for v_group in
        select case when r.fault is null and not p_queue.fifo then coalesce((r.request ->> 'VisibilityTimeout')::int, p_queue.visibility_timeout) end as seconds,
            sum(case when r.fault is null then coalesce((r.request ->> 'MaxNumberOfMessages')::int, 1) end)::int as count,
            array_agg(r.place::int order by r.place) as places
        from (
            select u.request, u.place, pgqs_data.receive_fault(p_queue, u.request) as fault from unnest(p_requests) with ordinality as u(request, place)) r
        group by 1 order by min(r.place)
    loop
        if v_group.seconds is null or cardinality(v_group.places) = 1 then
            for v_at in 1 .. cardinality(v_group.places) loop
                v_answers[v_group.places[v_at]] := pgqs_data.try('ReceiveMessage', p_requests[v_group.places[v_at]], p_contexts[v_group.places[v_at]]);
            end loop;
            continue;
        end if;
        if pgqs_data.is_over_limit(p_queue.id) then
            for v_at in 1 .. cardinality(v_group.places) loop
                v_answers[v_group.places[v_at]] := jsonb_build_object('__error', pgqs_data.over_limit());
            end loop;
            continue;
        end if;
        v_token := pgqs_data.new_token();
        v_messages := pgqs_data.claim(p_queue, v_token, v_group.seconds, v_group.count);
        v_shares := '[]';
        for v_at in 1 .. cardinality(v_group.places) loop
            exit when v_messages = '{}';
            v_share := v_messages[:coalesce((p_requests[v_group.places[v_at]] ->> 'MaxNumberOfMessages')::int, 1)];
            v_messages := v_messages[cardinality(v_share) + 1:];
            v_shares := v_shares || jsonb_build_array((select jsonb_agg(m.id) from unnest(v_share) m));
            v_answers[v_group.places[v_at]] := pgqs_data.receive_answer(p_queue, v_token, v_share, p_requests[v_group.places[v_at]]);
        end loop;
        if jsonb_array_length(v_shares) > 1 then
            perform penstock_data.part_claims(p_queue.id, v_token, v_shares);
        end if;
    end loop;
    return v_answers;
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
-- {"__error": {"shape", "message", "query_code", "status"}} and does not hinder the others.  SendMessage, DeleteMessage,
-- ChangeMessageVisibility and ReceiveMessage cost little more than one request, the others what they cost one by one.
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
    if action not in ('SendMessage', 'DeleteMessage', 'ChangeMessageVisibility', 'ReceiveMessage') then
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
