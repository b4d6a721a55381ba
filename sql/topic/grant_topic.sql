-- Reserve a topic for roles: from then on only they (and penstock_admin) may publish to it.  Granting it to public
-- opens it again.
-- Roles: admin
create or replace function penstock.grant_topic(topic_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.topic_id(topic_name);
    perform penstock_data.note_grantee(role_name);
    update penstock_data.topics t
    set publishers = penstock_data.with_role(t.publishers, role_name)
    where t.name = topic_name;
end
$$;
comment on function penstock.grant_topic(text, name) is 'Reserve a topic for the roles it was granted to.';

-- Take back what grant_topic gave.  With the last role gone the topic is reserved for penstock_admin; grant it to
-- public to open it again.
-- Roles: admin
create or replace function penstock.revoke_topic(topic_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.topic_id(topic_name);
    update penstock_data.topics t set publishers = array_remove(t.publishers, role_name) where t.name = topic_name;
end
$$;
comment on function penstock.revoke_topic(text, name) is 'Take back what grant_topic gave.';
