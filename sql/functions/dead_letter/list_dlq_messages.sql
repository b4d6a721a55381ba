-- Dead letters, oldest first; of one queue or of all.  The rows are those of the view dead_letter_queue.
create or replace function penstock.list_dlq_messages(queue_name text default null) returns setof penstock.dead_letter_queue
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if list_dlq_messages.queue_name is not null then
        perform penstock_data.check_queue(list_dlq_messages.queue_name);
    end if;
    return query
    select * from penstock.dead_letter_queue d
    where list_dlq_messages.queue_name is null or d.queue_name = list_dlq_messages.queue_name
    order by d.id;
end
$$;
comment on function penstock.list_dlq_messages(text) is 'Dead letters with payload, last error and history.';
