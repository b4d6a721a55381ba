-- Dead letters, oldest first; of one queue or of all, all of them or a page: page_size letters with an id above after.
-- The rows are those of the view dead_letter_queue.
-- Roles: admin
create or replace function penstock.list_dlq_messages(queue_name text default null, after bigint default 0, page_size int default null)
returns setof penstock.dead_letter_queue
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if list_dlq_messages.queue_name is not null then
        perform penstock_data.check_queue(list_dlq_messages.queue_name);
    end if;
    if page_size is not null then
        perform penstock_data.check_range('page_size', page_size, 1, 10000);
    end if;
    return query
    select * from penstock.dead_letter_queue d
    where (list_dlq_messages.queue_name is null or d.queue_name = list_dlq_messages.queue_name)
      and d.id > coalesce(list_dlq_messages.after, 0)
    order by d.id limit page_size;
end
$$;
comment on function penstock.list_dlq_messages(text, bigint, int) is 'Dead letters with payload, last error and history.';
