-- Does a receipt free a lane that no claim has learnt of yet?
create or replace function penstock_data.frees_a_lane(p_receipt penstock_data.receipts) returns boolean
language sql stable as $$
    select p_receipt.lanes is not null and exists (
        select from penstock_data.position_of(p_receipt.queue_id) p
        where p.receipts_from is not null and not pg_visible_in_snapshot(p_receipt.xid, p.receipts_from))
$$;

-- Forget the done messages of a queue.  Returns how many.  Receipts that free a lane and were not applied yet stay,
-- without their messages.
create or replace function penstock_data.forget_done(p_queue_id bigint) returns int
language sql as $$
    with done as materialized (
        select r.segment, r.ctid, cardinality(r.message_ids) as count, penstock_data.frees_a_lane(r) as frees
        from penstock_data.receipts r join penstock_data.queues q on q.id = r.queue_id
        where r.queue_id = p_queue_id and r.outcome in ('acked', 'lapsed')
          -- Runs learn from it which messages are finished: it is forgotten the next time.
          and not (q.runs and penstock_data.frees_a_lane(r))
    ), gone as (
        delete from penstock_data.receipts r using done d
        where r.segment = d.segment and r.ctid = d.ctid and not d.frees
    ), emptied as (
        update penstock_data.receipts r set message_ids = '{}', attempts = null from done d
        where r.segment = d.segment and r.ctid = d.ctid and d.frees
    )
    select coalesce(sum(d.count), 0)::int from done d
$$;

-- Deleting completed rows through the view queue_messages: the message leaves its receipt, which goes with its last one
-- unless it still has to free a lane.
create or replace function penstock_data.delete_queue_message() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if old.status <> 'completed' then
        perform penstock_data.fail('PS005', format('message %s is %s in this queue; only completed rows can be deleted, see penstock.purge_queue()', old.message_id, old.status));
    end if;
    with receipt as materialized (
        select r.ctid, r.segment, penstock_data.frees_a_lane(r) as frees from penstock_data.receipts r
        where r.queue_id = old.queue_id and r.outcome in ('acked', 'lapsed') and r.ended_at = old.completed_at
          and old.message_id = any (r.message_ids)
          and not (penstock_data.frees_a_lane(r) and (select q.runs from penstock_data.queues q where q.id = old.queue_id))
        limit 1
    ), shrunk as (
        update penstock_data.receipts r
        set message_ids = array_remove(r.message_ids, old.message_id),
            attempts = case when r.attempts is not null then
                r.attempts[:array_position(r.message_ids, old.message_id) - 1] || r.attempts[array_position(r.message_ids, old.message_id) + 1:] end
        from receipt x
        where r.segment = x.segment and r.ctid = x.ctid and (cardinality(r.message_ids) > 1 or x.frees)
    )
    delete from penstock_data.receipts r using receipt x
    where r.segment = x.segment and r.ctid = x.ctid and cardinality(r.message_ids) = 1 and not x.frees;
    return old;
end
$$;
