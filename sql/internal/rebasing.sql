-- A queue's position for the log stamped anew, where all messages bear one xid and only an id can part them: what was
-- unread above the highest id that was read stays in the log, the rest (and all flagged ones) is scheduled one by one.
create or replace function penstock_data.rebase_queue(p_queue penstock_data.queues, p_before pg_snapshot, p_after pg_snapshot)
returns void
language plpgsql as $$
declare
    v_position penstock_data.positions;
    v_unread   bigint[] := array(select m.id from penstock_data.unread_messages(p_queue.id) m order by m.id);
    v_cut      bigint;
    v_single   bigint[];
    v_now      timestamptz := penstock_data.clock();
    v_admitted record;
begin
    select * into v_position from penstock_data.position_of(p_queue.id);
    if p_queue.ordering = 'fifo' then
        v_position := penstock_data.apply_receipts(v_position, '9223372036854775806:9223372036854775806:', v_now);
        v_position.receipts_from := p_after;
    end if;
    select coalesce(max(m.id), 0) into v_cut
    from penstock_data.messages m
    where m.segment > 0 and m.topic_id = p_queue.topic_id
      and not exists (select from unnest(v_unread) as u(id) where u.id = m.id);
    v_single := array(
        select m.id from penstock_data.messages m
        where m.segment > 0 and m.topic_id = p_queue.topic_id and m.id = any (v_unread)
          and (m.id <= v_cut or m.flagged and p_queue.ordering <> 'fifo')
        order by m.id);
    v_position.window_from := p_before;
    v_position.window_to := p_after;
    v_position.last_xid := case when p_queue.direct then pg_snapshot_xmax(p_before) end;
    v_position.last_id := v_cut;
    v_position.from_id := case when not p_queue.direct then 0 end;
    v_position.to_id := case when not p_queue.direct then penstock_data.last_message_id() end;
    v_position.next_from_id := v_position.to_id;
    v_position.flagged_from := p_after;
    v_position.flagged_to := null;
    v_position.flagged_xid := null;
    v_position.flagged_id := null;
    v_position.full_scan_at := v_now;
    v_position.attend_at := v_now;
    if v_single <> '{}' then
        select * into v_admitted from penstock_data.admit(p_queue, v_position, v_single, v_now);
        v_position := v_admitted.p_position;
    end if;
    perform penstock_data.append_position(v_position);
end
$$;

-- A reader's position for the log stamped anew: at its first unread message.
create or replace function penstock_data.rebase_reader(p_reader penstock_data.readers, p_before pg_snapshot, p_after pg_snapshot)
returns void
language plpgsql as $$
declare
    v_position penstock_data.reader_positions;
    v_first    bigint;
begin
    select * into v_position from penstock_data.reader_position(p_reader.id);
    select min(m.id) into v_first
    from penstock_data.messages m
    where m.segment > 0 and m.topic_id = p_reader.topic_id
      and (not pg_visible_in_snapshot(m.xid, v_position.window_to)
           or v_position.last_id is not null and not pg_visible_in_snapshot(m.xid, v_position.window_from) and m.id > v_position.last_id);
    v_position.window_from := p_before;
    v_position.window_to := p_after;
    v_position.from_id := 0;
    v_position.to_id := penstock_data.last_message_id();
    v_position.next_from_id := v_position.to_id;
    v_position.last_id := coalesce(v_first - 1, v_position.to_id);
    perform penstock_data.append_reader_position(v_position);
end
$$;
