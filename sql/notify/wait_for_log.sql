-- Register a reader that is going to wait until one of these topics has a message.  Returns the channels to LISTEN on.
-- The order that misses no message: LISTEN, wait_for_log, look once more, then wait.  Publishers notify for the given
-- seconds.
-- Roles: consumer, admin
create or replace function penstock.wait_for_log(topic_ids bigint[], seconds int default 2) returns setof text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now timestamptz := penstock_data.clock();
begin
    perform penstock_data.check_readable(topic_ids);
    perform penstock_data.check_range('seconds', seconds, 1, 3600);
    -- One registration serves all streams of a topic.
    insert into penstock_data.waiting (topic_id, until, channel)
    select t.id, v_now + make_interval(secs => seconds), penstock_data.channel('topic', t.name)
    from penstock_data.topics t
    where t.id = any (topic_ids) and not exists (
        select from penstock_data.waiting w
        where w.topic_id = t.id and w.queue_id is null and w.channel = penstock_data.channel('topic', t.name)
          and w.until > v_now + make_interval(secs => seconds / 2.0));
    return query select penstock_data.channel('topic', t.name) from penstock_data.topics t where t.id = any (topic_ids);
end
$$;
comment on function penstock.wait_for_log(bigint[], int) is 'Register as waiting for topics; returns the channels to LISTEN on.';
