-- Installations before grantees: the roles that have the names now.
do $$
begin
    if not penstock_data.record_migration(2, 'grantees') then
        return;
    end if;
    insert into penstock_data.grantees (role_name, role_id)
    select r.rolname, r.oid from pg_roles r
    where r.rolname = any (array(
        select unnest(q.consumers) from penstock_data.queues q
        union select unnest(t.publishers) from penstock_data.topics t
        union select unnest(d.consumers) from penstock_data.readers d))
      and not exists (select from penstock_data.grantees)
    on conflict do nothing;
end
$$;
