-- Refuse ids that are no dead letters of the queue.
create or replace function penstock_data.check_dead_letters(p_queue penstock_data.queues, p_ids bigint[]) returns void
language plpgsql as $$
declare
    v_unknown bigint := (
        select u.id from unnest(p_ids) as u(id)
        where not exists (select from penstock_data.dead_letters d where d.queue_id = p_queue.id and d.message_id = u.id)
        limit 1);
begin
    if v_unknown is not null then
        perform penstock_data.fail('PS014', format('message %s is no dead letter of queue %L', v_unknown, p_queue.name));
    end if;
end
$$;
