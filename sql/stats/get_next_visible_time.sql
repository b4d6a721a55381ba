-- When a claim may next find something: now when messages wait, else the next due time or claim's end; null when the
-- queue holds nothing or is paused.  For consumers that sleep.
-- Roles: consumer, monitor, admin
create or replace function penstock.get_next_visible_time(queue_name text) returns timestamptz
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan    -- planning anew takes ten times as long as looking
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_queue_id bigint := penstock_data.watched_queue(queue_name);
    v_position penstock_data.positions;
    v_now      timestamptz := penstock_data.clock();
begin
    if (select q.paused_at is not null from penstock_data.queues q where q.id = v_queue_id) then
        return null;
    end if;
    if penstock_data.has_unread(v_queue_id) then
        return v_now;
    end if;
    select * into v_position from penstock_data.position_of(v_queue_id);
    if exists (
        select from penstock_data.claims c where c.queue_id = v_queue_id and c.token = '' and c.first_id >= v_position.slices_from
    ) then
        return v_now;
    end if;
    return least(
        (select min(s.visible_at)
         from penstock_data.level_places(v_position) level
         cross join lateral (
             select s.visible_at from penstock_data.scheduled s
             where s.queue_id = v_queue_id and s.priority = level.priority and s.rank is null
               and (s.visible_at, s.message_id) > (level.floor, level.floor_id)
             order by s.visible_at, s.message_id limit 1) s),
        (select v_now
         from penstock_data.level_places(v_position) level
         cross join lateral (
             select from penstock_data.scheduled s
             where s.queue_id = v_queue_id and s.priority = level.priority and s.rank is not null
               and (s.rank, s.message_id) > (level.turn, level.turn_id)
             order by s.rank, s.message_id limit 1) s
         limit 1),
        -- What was given back and no claim has seen yet, wherever its place is.
        (select min(s.visible_at) from penstock_data.scheduled s
         where s.queue_id = v_queue_id and s.xid >= pg_snapshot_xmax(v_position.flagged_from)),
        (select min(s.visible_at) from penstock_data.scheduled s
         where s.queue_id = v_queue_id and s.xid = any (penstock_data.open_xids(v_position.flagged_from))),
        (select c.deadline from penstock_data.claims c
         where c.queue_id = v_queue_id and c.deadline > '-infinity' and c.deadline >= v_position.floor order by c.deadline limit 1),
        -- fifo: a lane whose head is finished, which the next claim will learn from the receipt.
        (select v_now from penstock_data.receipts r
         where v_position.receipts_from is not null and r.queue_id = v_queue_id
           and r.xid >= pg_snapshot_xmin(v_position.receipts_from) and not pg_visible_in_snapshot(r.xid, v_position.receipts_from)
           and r.outcome in ('acked', 'dead', 'lapsed')
           and exists (select from penstock_data.backlog b where b.queue_id = v_queue_id and b.lane = any (r.lanes))
         limit 1));
end
$$;
comment on function penstock.get_next_visible_time(text) is 'When a claim may next find something; null when the queue is empty or paused.';
