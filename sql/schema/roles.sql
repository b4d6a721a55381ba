-- Least privilege: nothing is executable by PUBLIC, and each role gets just its own functions.
do $$
declare
    v_role text;
begin
    foreach v_role in array array['penstock_publisher', 'penstock_consumer', 'penstock_monitor', 'penstock_admin'] loop
        if not exists (select from pg_roles where rolname = v_role) then
            execute format('create role %I nologin', v_role);
        end if;
    end loop;
exception
    when insufficient_privilege then
        raise warning 'the penstock roles were not created, because % may not create roles; only the owner can use Penstock for now', current_user;
    when duplicate_object or unique_violation then
        null;       -- another installation in this cluster creates them at this moment
end
$$;

-- PUBLIC keeps nothing.  ALTER DEFAULT PRIVILEGES may have granted what was created above to other roles, too.  In the
-- schemas that only the engine touches, no other role keeps anything; in the others, the roles that the default
-- privileges name lose what they got.  Only what is there is revoked: each revoke writes a catalog row, waits for
-- housekeeping that has emptied that segment, and then fails, because the row has changed.
do $$
declare
    v_revoke text;
begin
    for v_revoke in
        with schemas as (
            select n.oid, n.nspname in ('penstock_data', 'pgqs_data') as closed, n.nspacl, n.nspowner, n.nspname from pg_namespace n
            where n.nspname in ('penstock', 'penstock_data', 'penstock_stage', 'pgqs', 'pgqs_data')
        ), by_default as (
            select a.grantee from pg_default_acl d cross join lateral aclexplode(d.defaclacl) a
            where a.grantee not in (0, d.defaclrole)
        ), grants as (
            select 'table ' || c.oid::regclass as object, a.grantee, s.closed
            from pg_class c join schemas s on s.oid = c.relnamespace cross join lateral aclexplode(c.relacl) a
            where c.relkind in ('r', 'p', 'v', 'S') and a.grantee <> c.relowner and s.nspname <> 'penstock_stage'
            union
            select 'table ' || c.oid::regclass, a.grantee, s.closed
            from pg_class c join schemas s on s.oid = c.relnamespace
            join pg_attribute t on t.attrelid = c.oid cross join lateral aclexplode(t.attacl) a
            where c.relkind in ('r', 'p', 'v') and a.grantee <> c.relowner and s.nspname <> 'penstock_stage'
            union
            select 'routine ' || p.oid::regprocedure, a.grantee, s.closed
            from pg_proc p join schemas s on s.oid = p.pronamespace
            cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
            where a.grantee <> p.proowner
            union
            select format('schema %I', s.nspname), a.grantee, s.closed
            from schemas s cross join lateral aclexplode(s.nspacl) a where a.grantee <> s.nspowner
        )
        select format('revoke all on %s from %s', g.object, coalesce(quote_ident(r.rolname), 'public'))
        from grants g left join pg_roles r on r.oid = g.grantee
        where g.grantee = 0 or g.closed or g.grantee in (select b.grantee from by_default b)
    loop
        execute v_revoke;
    end loop;
end
$$;

-- What grants.sql does not say: it holds who may call which function of penstock and pgqs.
do $$
begin
    if not exists (select from pg_roles where rolname = 'penstock_admin') then
        return;
    end if;
    grant usage on schema penstock to penstock_publisher, penstock_consumer, penstock_monitor, penstock_admin;
    -- What each role may do through SQS is decided for each action (pgqs_data.check_right).
    grant usage on schema pgqs to penstock_publisher, penstock_consumer, penstock_monitor, penstock_admin;
    grant usage on schema penstock_stage to penstock_publisher, penstock_admin;
    grant select on pgqs.error_shapes to penstock_publisher, penstock_consumer, penstock_monitor, penstock_admin;
    grant select on penstock.topics, penstock.queues, penstock.queue_messages to penstock_monitor, penstock_admin;
    grant select on penstock.messages, penstock.dead_letter_queue to penstock_admin;
    grant select on penstock.log, penstock.receipt_log to penstock_consumer, penstock_admin;
    grant delete on penstock.queue_messages to penstock_admin;
    -- Views call these with the rights of their reader.
    grant execute on function penstock_data.may_read(bigint) to penstock_consumer, penstock_admin;
    grant execute on function penstock_data.queue_messages(bigint) to penstock_monitor, penstock_admin;
end
$$;
