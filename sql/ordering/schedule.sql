-- Does a message pass a queue's filter?
create or replace function penstock_data.matches(p_filter jsonb, p_headers jsonb, p_payload jsonb) returns boolean
language sql immutable as $$
    select p_filter is null
        or (not p_filter ? 'headers' or coalesce(p_headers, '{}') @> (p_filter -> 'headers'))
       and (not p_filter ? 'payload' or p_payload @> (p_filter -> 'payload'))
$$;

-- Put messages into the schedule by the queue's ordering.  Returns how many can be claimed.  Under the queue's lock.
create or replace function penstock_data.place(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_entries penstock_data.entry[], p_now timestamptz
) returns int
language plpgsql as $$
declare
    v_ready int;
begin
    case p_queue.ordering
        when 'fifo' then
            if p_queue.runs then
                return penstock_data.enter_runs(p_queue.id, p_entries, p_now);
            end if;
            perform penstock_data.enter_noted(p_queue.id, p_position, p_now);
            return penstock_data.enter_lanes(p_queue.id, p_entries, p_now);
        when 'fair' then
            return penstock_data.take_turns(p_position, p_entries, p_now);
        else
            with placed as (
                insert into penstock_data.scheduled (queue_id, message_id, visible_at, priority, history, expires_at)
                select p_queue.id, e.message_id, greatest(e.visible_at, level.floor + interval '1 microsecond'), e.priority, e.history, e.expires_at
                from unnest(p_entries) e join penstock_data.level_places(p_position) level on level.priority = e.priority
                returning visible_at
            )
            select count(*) into v_ready from placed p where p.visible_at <= p_now;
            return v_ready;
    end case;
end
$$;

-- Messages read from the log enter a queue: those that are not for it are passed over, those whose time is over lapse,
-- the others are placed.  Under the queue's lock.
create or replace function penstock_data.admit(
    p_queue penstock_data.queues, inout p_position penstock_data.positions, p_ids bigint[], p_now timestamptz, out ready int
)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_entries penstock_data.entry[];
    v_lapsed  bigint[];
    v_levels  int[];
begin
    select
        array_agg((m.id, m.key, m.priority, coalesce(m.deliver_after, p_now), null, m.expires_at)::penstock_data.entry order by m.place)
            filter (where m.lapsed is not true),
        array_agg(m.id) filter (where m.lapsed),
        array_agg(distinct m.priority)
    into v_entries, v_lapsed, v_levels
    from (
        select m.id, m.key, m.priority, m.deliver_after, m.expires_at, u.place,
            least(m.expires_at, m.published_at + p_queue.retention) <= p_now as lapsed
        from unnest(p_ids) with ordinality as u(id, place)
        cross join lateral (
            select * from penstock_data.messages m where m.topic_id = p_queue.topic_id and m.id = u.id limit 1) m
        where penstock_data.matches(p_queue.filter, m.headers, m.payload)
          and (p_queue.starts_at is null or m.published_at >= p_queue.starts_at)
    ) m;
    ready := 0;
    p_position := penstock_data.with_levels(p_position, v_levels);
    if v_lapsed is not null then
        insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids)
        select p_queue.id, p_now, s.receipt_segment, 'lapsed', v_lapsed from penstock_data.settings s;
    end if;
    if v_entries is not null then
        ready := penstock_data.place(p_queue, p_position, v_entries, p_now);
    end if;
end
$$;

-- Queues that are not direct: bring the log into the schedule until p_wanted messages can be claimed or the log is used
-- up.  p_last_id as in bound_window.  Under the queue's lock.
-- What is read here is locked until the transaction ends.  So little is read at first, and twice as much each time
-- while claims follow each other.  But a fair queue has to see what lies behind the busy keys, and a fifo queue what
-- has a priority.
create or replace function penstock_data.schedule_log(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_now timestamptz, p_wanted int, p_last_id bigint
) returns penstock_data.positions
language plpgsql as $$
declare
    c_most     constant int := 1000;    -- messages read at a time …
    c_rounds   constant int := 60;      -- … and how often
    v_size     int := case when p_queue.ordering = 'fair' or p_queue.runs or p_position.levels is not null then c_most
        when p_position.floor > p_now - interval '1 second' then p_position.read_size else 0 end;
    v_urgent   boolean;                 -- there may be messages with a priority
    v_opened   boolean := false;
    v_window   penstock_data.positions;
    v_read     penstock_data.pick;
    v_free     record;
    v_admitted record;
    v_ready    int := 0;
begin
    if p_queue.ordering = 'fifo' and v_size < c_most is not false then
        -- Delays are flagged as well.  A hundred of them are taken for a priority.
        select count(*) = 100 or bool_or(m.priority <> 0) into v_urgent
        from (
            select m.priority from penstock_data.messages m
            where m.segment > 0 and m.topic_id = p_queue.topic_id and m.flagged and m.xid >= pg_snapshot_xmin(p_position.window_from)
            order by m.xid, m.id limit 100) m;
        if v_urgent then
            v_size := c_most;
        end if;
    end if;
    for v_round in 1 .. c_rounds loop
        v_size := least(greatest(2 * coalesce(v_size, 0), p_wanted), c_most);
        v_window := p_position;
        if p_position.last_id is null then
            exit when v_opened;
            v_window := penstock_data.next_window(p_position);
        end if;
        v_read := penstock_data.read_by_id(p_queue, v_window, v_size);
        if v_read.message_ids = '{}' then
            exit when p_position.last_id is null;       -- nothing new: the position stays as it was
            p_position := v_read.position;
            continue;
        end if;
        if p_queue.runs then
            select v_read.message_ids as taken, cardinality(v_read.message_ids) as passed into v_free;      -- no claim goes ahead
        else
            select * into v_free from penstock_data.pass_ahead(p_queue.id, v_read.message_ids, v_size, p_position.ahead, false, null);
        end if;
        exit when v_free.passed = 0;                    -- claimed ahead by a transaction that is still open
        if p_position.last_id is null then
            v_opened := true;
            v_read.position := penstock_data.keep_window(v_read.position, p_last_id);
        end if;
        p_position := v_read.position;
        p_position.read_size := v_size;
        if v_free.passed < cardinality(v_read.message_ids) then
            p_position.last_id := v_read.message_ids[v_free.passed];
        end if;
        if cardinality(v_free.taken) < v_free.passed then
            perform penstock_data.forget_notes(p_queue, p_position, v_read.message_ids[:v_free.passed], p_now);
        end if;
        if v_free.taken <> '{}' then
            select * into v_admitted from penstock_data.admit(p_queue, p_position, v_free.taken, p_now);
            p_position := v_admitted.p_position;
            v_ready := v_ready + v_admitted.ready;
        end if;
        exit when v_ready >= p_wanted or v_free.passed < cardinality(v_read.message_ids);
    end loop;
    return p_position;
end
$$;

-- Everything that a claim does before it picks: take back what expired, lift what was given back late, schedule what is
-- flagged, and for queues that are not direct bring in the log.  p_full: look below the floor.
-- p_last_id as in bound_window.  Under the queue's lock.
create or replace function penstock_data.attend(
    p_queue penstock_data.queues, p_position penstock_data.positions, p_snapshot pg_snapshot, p_now timestamptz, p_wanted int,
    p_full boolean, p_last_id bigint
) returns penstock_data.positions
language plpgsql as $$
declare
    v_lifted   record;
    v_read     penstock_data.pick;
    v_admitted record;
    v_due      int;
begin
    perform penstock_data.take_back(p_queue.id, case when p_full then '-infinity' else p_position.floor end, p_now, true);
    select * into v_lifted from penstock_data.lift_late(p_position, p_snapshot, p_full);
    p_position := v_lifted.p_position;
    if p_queue.ordering = 'fifo' then
        p_position := penstock_data.apply_receipts(p_position, p_snapshot, p_now);
        if v_lifted.moving then
            p_position.flagged_from := p_snapshot;
        end if;
    else
        v_read := penstock_data.read_flagged(p_queue.topic_id, p_position, p_snapshot, v_lifted.moving or p_position.ahead is not null);
        p_position := v_read.position;
        if v_read.message_ids is not null then
            select * into v_admitted from penstock_data.admit(p_queue, p_position, v_read.message_ids, p_now);
            p_position := v_admitted.p_position;
        end if;
    end if;
    if not p_queue.direct then
        -- A fair queue reads ahead at every claim, or a quiet key would wait behind a busy one in the log.
        v_due := case when p_queue.ordering <> 'fair' then penstock_data.count_due(p_position, p_now, p_wanted) else 0 end;
        -- A fifo queue looks at the log now and then although it has enough, or new keys would wait for ever behind
        -- busy ones.
        if v_due < p_wanted or p_full and p_queue.ordering = 'fifo' then
            p_position := penstock_data.schedule_log(p_queue, p_position, p_now, greatest(p_wanted - v_due, 1), p_last_id);
        end if;
    end if;
    return p_position;
end
$$;
