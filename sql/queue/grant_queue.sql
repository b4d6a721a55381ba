-- Reserve a queue for roles: from then on only they (and penstock_admin) may consume from it.  Granting it to public
-- opens it again.
-- Roles: admin
create or replace function penstock.grant_queue(queue_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_queue(queue_name);
    perform penstock_data.note_grantee(role_name);
    update penstock_data.queues q
    set consumers = penstock_data.with_role(q.consumers, role_name)
    where q.name = queue_name;
end
$$;
comment on function penstock.grant_queue(text, name) is 'Reserve a queue for the roles it was granted to.';

-- Take back what grant_queue gave.  With the last role gone the queue is reserved for penstock_admin; grant it to
-- public to open it again.
-- Roles: admin
create or replace function penstock.revoke_queue(queue_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_queue(queue_name);
    update penstock_data.queues q set consumers = array_remove(q.consumers, role_name) where q.name = queue_name;
end
$$;
comment on function penstock.revoke_queue(text, name) is 'Take back what grant_queue gave.';
