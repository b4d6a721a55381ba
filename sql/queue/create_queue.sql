-- Create a queue: a subscription to a topic, which is made when it does not exist (and named like the queue when no
-- name is given).  Returns its id; creating it again with the same settings returns the same id. start_at says which
-- messages it gets: those published from now on ('end'), all that the log still holds ('beginning'), or those published
-- since a time.  filter: {"headers": {…}, "payload": {…}}, both by containment.
-- Errors: PS004 name, PS005 arguments, PS006 exists with other settings.
-- Roles: admin
create or replace function penstock.create_queue(
    queue_name text, topic_name text default null, exclusive boolean default false, max_delivery_attempts int default 3,
    keep_alive_seconds int default null, ordering text default 'standard', start_at text default 'end',
    retry_base_seconds numeric default 1, retry_cap_seconds numeric default 300, retention interval default null,
    filter jsonb default null, notify text default 'waiting'
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_topic_id bigint;
    v_old      penstock_data.queues;
    v_new      penstock_data.queues;
    v_since    timestamptz;
begin
    perform penstock_data.check_name('queue', queue_name);
    perform penstock_data.check_queue_settings(exclusive, max_delivery_attempts, keep_alive_seconds, ordering, start_at,
        retry_base_seconds, retry_cap_seconds, retention, filter, notify);
    perform penstock_data.check_incarnation();
    v_since := penstock_data.start_time(start_at);
    v_topic_id := penstock.create_topic(coalesce(topic_name, queue_name));
    -- An exclusive queue that has ended makes room, as if maintain() had come by.
    if exists (
        select from penstock_data.queues q join penstock_data.keep_alives k on k.queue_id = q.id
        where q.name = queue_name and k.until <= penstock_data.clock()
    ) then
        perform penstock_data.drop_queue(queue_name);
    end if;

    insert into penstock_data.queues as q (
        name, topic_id, exclusive, max_delivery_attempts, ordering, retry_base, retry_cap, retention, filter, notify, starts_at)
    values (
        queue_name, v_topic_id, exclusive, max_delivery_attempts, ordering, make_interval(secs => retry_base_seconds::float8),
        make_interval(secs => retry_cap_seconds::float8), retention, filter, notify, v_since)
    on conflict (name) do nothing
    returning * into v_new;

    if v_new.id is null then
        select * into v_old from penstock_data.queues q where q.name = queue_name;
        perform penstock_data.check_same_queue(v_old, v_topic_id, exclusive, max_delivery_attempts, ordering,
            make_interval(secs => retry_base_seconds::float8), make_interval(secs => retry_cap_seconds::float8), retention, filter, notify);
        return v_old.id;
    end if;

    insert into penstock_data.claim_locks (queue_id) values (v_new.id);
    insert into penstock_data.positions select p.* from penstock_data.start_position(v_new, start_at = 'end') p;
    if exclusive then
        insert into penstock_data.keep_alives (queue_id, until)
        values (v_new.id, penstock_data.clock() + make_interval(secs => coalesce(keep_alive_seconds, 300)));
    end if;
    if notify = 'always' then
        update penstock_data.topics t set always = t.always || penstock_data.channel('queue', queue_name) where t.id = v_topic_id;
    end if;
    return v_new.id;
end
$$;
comment on function penstock.create_queue(text, text, boolean, int, int, text, text, numeric, numeric, interval, jsonb, text) is
    'Create a queue on a topic; returns its id.';
