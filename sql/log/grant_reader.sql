-- Reserve a reader for roles: from then on only they (and penstock_admin) may read and commit with it.  Granting it to
-- public opens it again.  A reader sees the whole topic, so reserve the readers of a topic whose queues are reserved.
-- Roles: admin
create or replace function penstock.grant_reader(reader_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_reader penstock_data.readers := penstock_data.reader_named(reader_name);
begin
    perform penstock_data.note_grantee(role_name);
    update penstock_data.readers r
    set consumers = penstock_data.with_role(r.consumers, role_name)
    where r.id = v_reader.id;
end
$$;
comment on function penstock.grant_reader(text, name) is 'Reserve a reader for the roles it was granted to.';

-- Take back what grant_reader gave.  With the last role gone the reader is reserved for penstock_admin.
-- Roles: admin
create or replace function penstock.revoke_reader(reader_name text, role_name name) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_reader penstock_data.readers := penstock_data.reader_named(reader_name);
begin
    update penstock_data.readers r set consumers = array_remove(r.consumers, role_name) where r.id = v_reader.id;
end
$$;
comment on function penstock.revoke_reader(text, name) is 'Take back what grant_reader gave.';
