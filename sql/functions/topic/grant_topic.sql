-- Reserve a topic for roles: from then on only they (and penstock_admin) may publish to it.
create or replace function penstock.grant_topic(topic_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_topic(topic_name);
    perform penstock_data.check_role(role_name);
    update penstock_data.topics t
    set publishers = array(select distinct r from unnest(t.publishers || role_name) r where r is not null order by r)
    where t.name = topic_name;
end
$$;
comment on function penstock.grant_topic(text, name) is 'Reserve a topic for the roles it was granted to.';

-- Take a role off a topic's list; with the last one gone the topic is open to every penstock_publisher again.
create or replace function penstock.revoke_topic(topic_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_topic(topic_name);
    update penstock_data.topics t set publishers = nullif(array_remove(t.publishers, role_name), '{}') where t.name = topic_name;
end
$$;
comment on function penstock.revoke_topic(text, name) is 'Take back what grant_topic gave.';
