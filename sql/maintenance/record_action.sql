-- Remember who did what; in the same transaction as the action, so that neither is without the other.  Returns the
-- entry's id.  The newest 10,000 are kept.
-- Errors: PS005 without an actor or an action, PS007 a text of more than 1,024 bytes.
-- Roles: admin
create or replace function penstock.record_action(actor text, action text, target text default null, detail jsonb default null)
returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    c_kept constant bigint := 10000;
    v_id   bigint;
begin
    perform penstock_data.check_text('actor', coalesce(actor, ''), true);
    perform penstock_data.check_text('action', coalesce(action, ''), true);
    perform penstock_data.check_text('target', target, false);
    perform penstock_data.check_text('detail', detail::text, false);
    insert into penstock_data.audit (at, actor, role, action, target, detail)
    values (penstock_data.clock(), actor, penstock_data.caller(), action, target, detail)
    returning id into v_id;
    delete from penstock_data.audit a where a.id <= v_id - c_kept;
    return v_id;
end
$$;
comment on function penstock.record_action(text, text, text, jsonb) is 'Remember who did what to a queue.';
