-- Create a topic.  Returns its id; a topic of this name that exists already is returned as it is.
-- Roles: admin
create or replace function penstock.create_topic(topic_name text, retention interval default null) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_topic penstock_data.topics;
begin
    perform penstock_data.check_name('topic', topic_name);
    perform penstock_data.check_incarnation();
    if retention < interval '0' or retention > interval '100 years' then
        perform penstock_data.fail('PS005', format('retention must be between 0 and 100 years, not %s', retention));
    end if;
    insert into penstock_data.topics as t (name, retention) values (topic_name, coalesce(retention, '0'))
    on conflict (name) do nothing;
    select * into v_topic from penstock_data.topics t where t.name = topic_name;
    if retention is distinct from v_topic.retention and retention is not null then
        perform penstock_data.fail('PS006', format('topic %L exists with a retention of %s, not %s', topic_name, v_topic.retention, retention));
    end if;
    return v_topic.id;
end
$$;
comment on function penstock.create_topic(text, interval) is 'Create a topic, a named append-only log; returns its id.';
