-- Keep an exclusive queue alive for keep_alive_seconds from now.  Returns when it ends.
-- Errors: PS002 unknown queue, PS005 not exclusive, PS008 it has ended already.
-- Roles: consumer, admin
create or replace function penstock.extend_queue_keep_alive(queue_name text, keep_alive_seconds int) returns timestamptz
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_until timestamptz;
begin
    perform penstock_data.check_queue(queue_name);
    perform penstock_data.check_range('keep_alive_seconds', keep_alive_seconds, 1, 31536000);
    update penstock_data.keep_alives k
    set until = penstock_data.clock() + make_interval(secs => keep_alive_seconds)
    from penstock_data.queues q
    where q.name = queue_name and k.queue_id = q.id and q.exclusive
    returning k.until into v_until;
    if not found then
        perform penstock_data.fail('PS005', format('queue %L is not exclusive, it needs no keep-alive', queue_name));
    end if;
    return v_until;
end
$$;
comment on function penstock.extend_queue_keep_alive(text, int) is 'Keep an exclusive queue alive; returns until when.';

-- Delete exclusive queues that were not kept alive.  Returns how many.  maintain() does it too.
-- Roles: admin
create or replace function penstock.cleanup_expired_exclusive_queues() returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text;
    v_count int := 0;
begin
    for v_queue in
        select q.name
        from penstock_data.keep_alives k join penstock_data.queues q on q.id = k.queue_id
        where k.until <= penstock_data.clock()
        for update of k skip locked
    loop
        perform penstock_data.drop_queue(v_queue);
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;
comment on function penstock.cleanup_expired_exclusive_queues() is 'Delete exclusive queues whose keep-alive ended; returns how many.';
