-- The topics that a stream or a bulk read names: by name, or all whose name matches a regular expression as a whole.
-- Errors: PS001 unknown topic, or none matches; PS005 both or neither, or no regular expression; PS009 not permitted.
-- Roles: consumer, admin
create or replace function penstock.readable_topics(topic_names text[] default null, pattern text default null)
returns table (id bigint, name text)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_name  text;
    v_found bigint[];
begin
    if (topic_names is null) = (pattern is null) then
        perform penstock_data.fail('PS005', 'give topic names or a pattern, and not both');
    end if;
    foreach v_name in array coalesce(topic_names, '{}') loop
        perform penstock_data.topic_id(v_name);
    end loop;
    begin
        v_found := array(
            select t.id from penstock_data.topics t
            where t.name = any (topic_names) or t.name ~ ('^(?:' || pattern || ')$') order by t.name);
    exception when invalid_regular_expression then
        perform penstock_data.fail('PS005', format('%L is no regular expression', pattern));
    end;
    if v_found = '{}' then
        perform penstock_data.fail('PS001', format('no topic matches %L', coalesce(pattern, '{}')));
    end if;
    if pattern is not null and not penstock_data.is_permitted('{}') then
        v_found := array(select f.id from unnest(v_found) as f(id) where penstock_data.may_read(f.id));
        if v_found = '{}' then
            perform penstock_data.fail('PS009', format('role %I may read no topic that matches %L', penstock_data.caller(), pattern));
        end if;
    end if;
    perform penstock_data.check_readable(v_found);
    return query select t.id, t.name from penstock_data.topics t where t.id = any (v_found) order by t.name;
end
$$;
comment on function penstock.readable_topics(text[], text) is 'The topics of these names, or matching a pattern, that the caller may read.';

-- The queues whose history a stream or a bulk read names: by name, or all queues of these topics.
-- Errors: PS002 unknown queue, PS009 not permitted.
-- Roles: consumer, admin
create or replace function penstock.readable_queues(queue_names text[] default null, topic_ids bigint[] default null)
returns table (id bigint, name text, topic_id bigint)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_name text;
begin
    foreach v_name in array coalesce(queue_names, '{}') loop
        if not exists (select from penstock_data.queues q where q.name = v_name) then
            perform penstock_data.fail('PS002', format('queue %L does not exist', v_name));
        end if;
    end loop;
    perform penstock_data.check_readable(array(
        select q.topic_id from penstock_data.queues q where q.name = any (queue_names)));
    return query
    select q.id, q.name, q.topic_id from penstock_data.queues q
    where (queue_names is null or q.name = any (queue_names))
      and (readable_queues.topic_ids is null or q.topic_id = any (readable_queues.topic_ids))
      and penstock_data.may_read(q.topic_id)
    order by q.name;
end
$$;
comment on function penstock.readable_queues(text[], bigint[]) is 'The queues of these names or topics whose history the caller may read.';
