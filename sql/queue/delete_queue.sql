-- Delete a queue with its claims, schedule, dead letters and history.  Its topic and other queues are not touched.
-- Locks: the queue's claim lock.
-- Roles: admin
create or replace function penstock.delete_queue(queue_name text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_name('queue', queue_name);
    if not exists (select from penstock_data.queues q where q.name = queue_name) then
        perform penstock_data.fail('PS002', format('queue %L does not exist', queue_name));
    end if;
    perform penstock_data.check_incarnation();
    perform penstock_data.drop_queue(queue_name);
end
$$;
comment on function penstock.delete_queue(text) is 'Delete a queue and everything in it.';
