-- Reserve a queue for roles: from then on only they (and penstock_admin) may consume from it.
create or replace function penstock.grant_queue(queue_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_queue(queue_name);
    perform penstock_data.check_role(role_name);
    update penstock_data.queues q
    set consumers = array(select distinct r from unnest(q.consumers || role_name) r where r is not null order by r)
    where q.name = queue_name;
end
$$;
comment on function penstock.grant_queue(text, name) is 'Reserve a queue for the roles it was granted to.';

-- Take a role off a queue's list; with the last one gone the queue is open to every penstock_consumer again.
create or replace function penstock.revoke_queue(queue_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_queue(queue_name);
    update penstock_data.queues q set consumers = nullif(array_remove(q.consumers, role_name), '{}') where q.name = queue_name;
end
$$;
comment on function penstock.revoke_queue(text, name) is 'Take back what grant_queue gave.';
