-- Perform an action for many requests at once.  Answers come in the order of the requests; one that fails has the answer
-- {"__error": {"shape", "message", "query_code", "status"}} and does not hinder the others.
create or replace function pgqs.invoke_many(action text, requests jsonb[], contexts jsonb[] default null) returns setof jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
begin
    if penstock_data.caller() <> current_user then
        perform pgqs_data.check_right(action);
    end if;
    for v_place in 1 .. coalesce(cardinality(requests), 0) loop
        return next pgqs_data.try(action, requests[v_place], contexts[v_place]);
    end loop;
end
$$;
comment on function pgqs.invoke_many(text, jsonb[], jsonb[]) is 'Perform an action of Amazon SQS for many requests at once.';

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
