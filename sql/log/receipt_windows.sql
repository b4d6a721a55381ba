-- Receipts between two offsets, transaction by transaction: a batch of them ends with a transaction, because a receipt
-- has no number of its own.  One row per receipt, p_limit of each queue at most.
create or replace function penstock_data.receipt_sizes(
    p_queue_ids bigint[], p_from pg_snapshot, p_to pg_snapshot, p_after xid8, p_through xid8, p_limit bigint
) returns table (xid xid8, messages int)
language plpgsql stable rows 1000 set plan_cache_mode = force_generic_plan as $$
declare
    v_late xid8[] := penstock_data.late_xids(p_from, p_to);
    v_open xid8[] := penstock_data.open_xids(p_to);
begin
    return query
    select r.xid, r.messages
    from unnest(p_queue_ids) as q(id)
    cross join lateral (
        (select r.xid, cardinality(r.message_ids) as messages from penstock_data.receipts r
        where r.queue_id = q.id and r.xid = any (v_late) and r.xid > p_after and r.xid <= p_through
        order by r.xid limit p_limit)
        union all
        (select r.xid, cardinality(r.message_ids) from penstock_data.receipts r
        where r.queue_id = q.id and r.xid >= pg_snapshot_xmax(p_from) and r.xid < pg_snapshot_xmax(p_to)
          and r.xid <> all (v_open) and r.xid > p_after and r.xid <= p_through
        order by r.xid limit p_limit)
    ) r
    where r.messages > 0;
end
$$;

-- The transaction up to which a batch of receipts that begins at an offset has been read before.
create or replace function penstock_data.after_xid(p_start jsonb, p_catch_up jsonb) returns xid8
language sql immutable as $$
    select coalesce(case
        when p_catch_up is null then p_start ->> 'xid'
        when penstock_data.is_catching_up(p_start, p_catch_up) then p_start #>> '{catch_up,xid}' end, '0')::xid8
$$;

-- Refuse queues whose history the caller may not read.
create or replace function penstock_data.check_history(p_queue_ids bigint[]) returns void
language sql as $$
    select penstock_data.check_readable(array(
        select distinct q.topic_id from penstock_data.queues q where q.id = any (p_queue_ids)))
$$;
