-- Which role calls, and what is reserved for which roles.

-- The role that calls: the one set with SET ROLE, else the login.  Inside our functions current_user is the owner.
-- Errors: PS009 in a security-restricted operation.  PostgreSQL evaluates index expressions and materialized views of
-- any role in the session that runs ANALYZE, VACUUM, REINDEX or REFRESH, often a superuser's or autovacuum's; the code
-- is not the session's, so the session's rights must not count.  SQL has no function that tells, but UNLISTEN is
-- refused there, and does nothing elsewhere.
create or replace function penstock_data.caller() returns name
language plpgsql as $$
begin
    begin
        unlisten penstock_none;
    exception when insufficient_privilege then
        perform penstock_data.fail('PS009', 'index expressions, materialized views and the like may not use what is reserved for roles');
    end;
    return coalesce(nullif(current_setting('role'), 'none'), session_user);
end
$$;

-- May the caller use something reserved for these roles?  Null: it is not reserved.
create or replace function penstock_data.is_permitted(p_roles name[]) returns boolean
language plpgsql stable as $$
declare
    v_caller name;
begin
    if p_roles is null then
        return true;
    end if;
    v_caller := penstock_data.caller();
    return exists (
            select from penstock_data.grantees g where g.role_name = any (p_roles) and pg_has_role(v_caller, g.role_id, 'member'))
        or exists (select from pg_roles r where r.rolname = 'penstock_admin' and pg_has_role(v_caller, r.oid, 'member'))
        or pg_has_role(v_caller, (select n.nspowner from pg_namespace n where n.nspname = 'penstock'), 'member');
end
$$;

-- The roles something is reserved for, with one more; null, open to all, once it is granted to public.
create or replace function penstock_data.with_role(p_roles name[], p_role name) returns name[]
language sql immutable as $$
    select case when p_role <> 'public' then
        array(select distinct r from unnest(p_roles || p_role) r where r is not null order by r) end
$$;

-- Note which role a name stands for, before something is granted to it.  When it is not known that the name stood for
-- this very role before, nothing that was granted to the name passes on: that role is gone.
-- Errors: PS005 no such role.
create or replace function penstock_data.note_grantee(p_role name) returns void
language plpgsql as $$
declare
    v_id oid := (select r.oid from pg_roles r where r.rolname = p_role);
begin
    if p_role = 'public' then
        return;
    elsif v_id is null then
        perform penstock_data.fail('PS005', format('role %s does not exist', coalesce(quote_ident(p_role), 'null')));
    end if;
    if not exists (select from penstock_data.grantees g where g.role_name = p_role and g.role_id = v_id) then
        update penstock_data.queues q set consumers = array_remove(q.consumers, p_role) where p_role = any (q.consumers);
        update penstock_data.topics t set publishers = array_remove(t.publishers, p_role) where p_role = any (t.publishers);
        update penstock_data.readers r set consumers = array_remove(r.consumers, p_role) where p_role = any (r.consumers);
    end if;
    insert into penstock_data.grantees (role_name, role_id) values (p_role, v_id)
    on conflict (role_name) do update set role_id = excluded.role_id;
end
$$;

-- After a restore into another cluster: the roles that have the names there.
create or replace function penstock_data.find_grantees() returns void
language sql as $$
    delete from penstock_data.grantees g where not exists (select from pg_roles r where r.rolname = g.role_name);
    update penstock_data.grantees g set role_id = r.oid from pg_roles r where r.rolname = g.role_name and r.oid <> g.role_id;
$$;

-- Take away what other roles were granted on a table, for example by ALTER DEFAULT PRIVILEGES when it was created.
create or replace function penstock_data.close_table(p_table regclass) returns void
language plpgsql as $$
declare
    v_role name;
begin
    for v_role in
        select distinct r.rolname from pg_class c cross join lateral aclexplode(c.relacl) a join pg_roles r on r.oid = a.grantee
        where c.oid = p_table and a.grantee <> c.relowner
    loop
        execute format('revoke all on %s from %I', p_table, v_role);
    end loop;
    execute format('revoke all on %s from public', p_table);
end
$$;
