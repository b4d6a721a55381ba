-- Delete dead letters: of one queue or of all, all of them or those named.  Returns how many.
-- Roles: admin
create or replace function penstock.purge_dlq(queue_name text default null, message_ids bigint[] default null) returns int
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_queue penstock_data.queues;
    v_count int;
begin
    if queue_name is not null then
        perform penstock_data.check_queue(queue_name);
        select * into v_queue from penstock_data.queues q where q.name = purge_dlq.queue_name;
        perform penstock_data.check_dead_letters(v_queue, purge_dlq.message_ids);
    elsif purge_dlq.message_ids is not null then
        perform penstock_data.fail('PS005', 'message_ids need a queue_name, because a message can be dead in several queues');
    end if;
    delete from penstock_data.dead_letters d
    where (v_queue.id is null or d.queue_id = v_queue.id)
      and (purge_dlq.message_ids is null or d.message_id = any (purge_dlq.message_ids));
    get diagnostics v_count = row_count;
    return v_count;
end
$$;
comment on function penstock.purge_dlq(text, bigint[]) is 'Delete dead letters; returns how many.';
