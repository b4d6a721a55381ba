-- What people did, newest first; before: go on behind this id.
-- Roles: monitor, admin
create or replace function penstock.list_actions(before bigint default null, page_size int default 100)
returns table (id bigint, at timestamptz, actor text, role text, action text, target text, detail jsonb)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform penstock_data.check_range('page_size', page_size, 1, 1000);
    return query
    select a.id, a.at, a.actor, a.role::text, a.action, a.target, a.detail
    from penstock_data.audit a
    where before is null or a.id < before
    order by a.id desc limit page_size;
end
$$;
comment on function penstock.list_actions(bigint, int) is 'What people did to queues, newest first.';
