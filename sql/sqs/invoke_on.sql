-- Perform an action on messages for many requests to one queue, named as the engine names it (pgqs.engine_queue).  For
-- servers: they have looked up the queue of a request already, and gather requests of one context.  Requests is a JSON
-- array; answers and errors as with invoke_many, but as texts.
-- Roles: publisher, consumer, monitor, admin
create or replace function pgqs.invoke_on(action text, queue_name text, requests jsonb, context jsonb) returns setof text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    v_queue pgqs_data.queue;
begin
    if penstock_data.caller() <> current_user then
        perform pgqs_data.check_right(action);
    end if;
    select * into v_queue from pgqs_data.queue_row(queue_name);
    if v_queue.id is null then
        return query select jsonb_build_object('__error', pgqs_data.no_queue(context))::text from jsonb_array_elements(requests);
        return;
    end if;
    return query select unnest(pgqs_data.answer_all(action, v_queue, array(select jsonb_array_elements(requests)), array[context]));
end
$$;
comment on function pgqs.invoke_on(text, text, jsonb, jsonb) is 'Perform an action on messages for many requests to one queue.';
