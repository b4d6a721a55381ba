-- Slices: messages that a claim has taken out of a queue for the consumers that claim at the same time.
-- A claim that reads the log moves the one position of its queue, so such claims take turns.  One that had to wait for
-- its turn therefore takes more messages than it was asked for, and the rest becomes a slice.  Claims beside it take
-- from slices, each from the oldest one that no other transaction has locked, and wait for nothing.  A slice is a row
-- of claims with an empty token and the deadline -infinity.  Its messages are waiting, not claimed: they have had no
-- attempt, and no token can ack them.

-- How long a slice belongs to the session that used it last.  Longer than consumers need for a message when many share
-- a server: else they take from each other's slices.
create or replace function penstock_data.slice_lease() returns interval
language sql immutable as $$
    select interval '100 milliseconds'
$$;

-- Lock the oldest slice of a queue that no other transaction has locked.  p_unused: and that belongs to no session,
-- because none has used it for its lease.  Returns its name; null when there is none.
create or replace function penstock_data.lock_slice(p_queue_name text, p_unused boolean) returns bigint
language plpgsql as $$
declare
    v_from record;
    v_name bigint;
begin
    select q.id, p.slices_from, clock_timestamp() + s.clock_shift as now into v_from
    from penstock_data.queues q
    cross join penstock_data.settings s
    cross join lateral (select p.slices_from from penstock_data.positions p where p.queue_id = q.id order by p.seq desc limit 1) p
    where q.name = p_queue_name and q.paused_at is null and s.single;
    if v_from.slices_from is not null then
        select c.first_id into v_name from penstock_data.claims c
        where c.queue_id = v_from.id and c.token = '' and c.first_id >= v_from.slices_from
          and (not p_unused or c.claimed_at <= v_from.now - penstock_data.slice_lease())
        order by c.first_id limit 1
        for update skip locked;
    end if;
    return v_name;
end
$$;

-- Claim up to p_limit messages from the slices of a queue, if it has any.  Needs no claim lock: pause_queue() and
-- others that stop claims end the slices, so none is found afterwards.
-- p_unused: besides the slice of this session, only those that belong to no other; it becomes the session's.
-- Locks: the slices that it takes from.  Slices that are locked are passed over.
-- Several small statements: one with three parts costs a third more than the parts.
create or replace function penstock_data.claim_beside(
    p_queue_name text, p_token text, p_seconds int, p_limit int, p_unused boolean default false
) returns setof penstock_data.claimed_message
language plpgsql as $$
declare
    v_name  bigint := nullif(current_setting('penstock.slice', true), '');
    v_slice record;
    v_left  int := p_limit;
    v_count int;
begin
    while v_left > 0 loop
        -- First the slice that this session used last: mostly no other session uses it.
        select q.id, q.topic_id, q.retention, q.consumers is null and not q.exclusive as open, s.first_segment, s.last_segment,
            clock_timestamp() + s.clock_shift as now, clock_timestamp() + s.clock_shift + p_seconds * interval '1 second' as deadline,
            c.place, c.message_ids[:v_left] as ids, c.attempts[:v_left] as attempts, c.lanes[:v_left] as lanes, c.histories,
            cardinality(c.message_ids) > v_left as lasts
        into v_slice
        from penstock_data.queues q cross join penstock_data.settings s
        cross join lateral (
            select c.ctid as place, c.* from penstock_data.claims c
            where c.queue_id = q.id and c.token = '' and c.first_id = v_name limit 1 for update skip locked) c
        where q.name = p_queue_name and q.paused_at is null and s.single;
        if v_slice.id is null then
            v_name := penstock_data.lock_slice(p_queue_name, p_unused);
            exit when v_name is null;
            if p_unused then
                perform set_config('penstock.slice', v_name::text, false);
            end if;
            continue;
        end if;
        if not v_slice.open then
            perform penstock_data.check_queue(p_queue_name);
        end if;
        if v_slice.lasts then
            update penstock_data.claims c
            set claimed_at = v_slice.now, message_ids = c.message_ids[v_left + 1:], attempts = c.attempts[v_left + 1:], lanes = c.lanes[v_left + 1:]
            where c.ctid = v_slice.place;
        else
            delete from penstock_data.claims c where c.ctid = v_slice.place;
        end if;
        insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
        values (
            v_slice.id, (select min(id) from unnest(v_slice.ids) id), v_slice.deadline, v_slice.now, p_token, v_slice.ids, v_slice.attempts, v_slice.lanes, v_slice.histories);
        return query
        select m.id, m.payload, m.headers, m.key, m.priority, coalesce(u.attempt, 1), v_slice.deadline, m.published_at,
            m.correlation_id, m.tenant_id
        from unnest(v_slice.ids, v_slice.attempts) with ordinality as u(id, attempt, place)
        cross join lateral (
            select * from penstock_data.messages m
            where (m.segment = 0 or m.segment >= v_slice.first_segment and m.segment <= v_slice.last_segment)
              and m.topic_id = v_slice.topic_id and m.id = u.id limit 1) m
        where (least(m.expires_at, m.published_at + v_slice.retention) <= v_slice.now) is not true
        order by u.place;
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
        if v_count < cardinality(v_slice.ids) then
            return query select * from penstock_data.drop_overdue(v_slice.id, p_token, v_slice.ids, v_slice.deadline, v_slice.now);
            get diagnostics v_count = row_count;
            v_left := v_left - v_count;
        end if;
    end loop;
end
$$;

-- Of messages just claimed from a slice, let those lapse whose time is over, and yield those that look overdue and are
-- not: requeued dead letters have a time of their own (are_over).
create or replace function penstock_data.drop_overdue(
    p_queue_id bigint, p_token text, p_ids bigint[], p_deadline timestamptz, p_now timestamptz
) returns setof penstock_data.claimed_message
language plpgsql as $$
declare
    v_queue penstock_data.queues;
    v_over  bigint[];
    v_claim penstock_data.claims;
begin
    select * into v_queue from penstock_data.queues q where q.id = p_queue_id;
    perform penstock_data.check_not_moved(v_queue.topic_id, p_ids);
    select array_agg(u.id) filter (where u.over) into v_over
    from unnest(p_ids, penstock_data.are_over(v_queue, p_ids, p_now)) as u(id, over);
    return query
    select r.*
    from penstock_data.claims c
    cross join unnest(c.message_ids, c.attempts) as u(id, attempt)
    cross join lateral penstock_data.claimed_rows(v_queue.topic_id, array[u.id], array[coalesce(u.attempt, 1)], p_deadline) r
    where c.queue_id = p_queue_id and c.token = p_token and u.id = any (p_ids) and u.id <> all (coalesce(v_over, '{}'))
      and least((select m.expires_at from penstock_data.messages m where m.topic_id = v_queue.topic_id and m.id = u.id limit 1),
                r.published_at + v_queue.retention) <= p_now;
    for v_claim in select * from penstock_data.unclaim(p_queue_id, p_token, v_over, '-infinity') loop
        insert into penstock_data.receipts (queue_id, ended_at, segment, outcome, message_ids, lanes)
        select p_queue_id, p_now, s.receipt_segment, 'lapsed', v_claim.message_ids, v_claim.lanes from penstock_data.settings s;
        perform penstock_data.wake_lanes(p_queue_id, v_claim.lanes, v_claim.message_ids[1]) where v_claim.lanes is not null;
    end loop;
end
$$;

-- Claim under the claim lock while others claim too: from a slice, else cut slices and claim from the first.  One cut
-- aims at what all consumers take in a tenth of a second: as many messages as the last cut lasted for, twice as many at
-- most, and at first four claims.  So consumers that work slowly hold few messages ahead of priorities and retries.
-- p_last_id as in bound_window.  p_waited: the claim had to wait for the lock.  If it did not, and no slice is left,
-- the others have gone: then it claims without them.
create or replace function penstock_data.claim_and_share(
    p_queue_name text, p_token text, p_seconds int, p_limit int, p_last_id bigint, p_waited boolean
) returns setof penstock_data.claimed_message
language plpgsql as $$
declare
    c_most   constant int := 512;       -- messages of a slice
    c_claims constant int := 64;        -- claims that it lasts for
    c_cut    constant int := 960;       -- messages of one cut: PostgreSQL compresses a larger row, which takes long
    c_lasts  constant interval := '100 milliseconds';
    v_queue    penstock_data.queues;
    v_position penstock_data.positions;
    v_count    int;
    v_now      timestamptz;
    v_size     int;                     -- messages of this cut
    v_ids      record;                  -- the lowest and the highest id of it
    v_key      bigint;
    v_cut      penstock_data.claims;
    v_name     bigint;
begin
    return query select * from penstock_data.claim_beside(p_queue_name, p_token, p_seconds, p_limit, true);
    get diagnostics v_count = row_count;
    p_limit := p_limit - v_count;
    if p_limit = 0 then
        perform set_config('penstock.beside', p_queue_name, false);
        return;
    end if;
    select * into v_queue from penstock_data.queues q where q.name = p_queue_name;
    select * into v_position from penstock_data.position_of(v_queue.id);
    if v_queue.runs or p_limit > c_most / 2 or not p_waited and not penstock_data.has_slices(v_queue.id) then
        return query select * from penstock_data.claim_with_care(p_queue_name, p_token, p_seconds, p_limit, p_last_id);
        return;
    end if;
    perform set_config('penstock.beside', p_queue_name, false);
    v_now := penstock_data.clock();
    v_size := greatest(4 * p_limit, least(c_cut, coalesce(v_position.slice_size, 0)
        * least(2, extract(epoch from c_lasts) / greatest(0.001, extract(epoch from v_now - v_position.sliced_at))))::int / p_limit * p_limit);
    select min(c.message_id) as low, max(c.message_id) as high into v_ids
    from penstock_data.claim_with_care(p_queue_name, '', null, v_size, p_last_id, true) c;
    -- Each row by its key: a join might read the dead rows of all earlier slices, which a held snapshot keeps.
    for v_key in
        select c.first_id from penstock_data.claims c
        where c.queue_id = v_queue.id and c.token = '' and c.first_id >= v_ids.low and c.first_id <= v_ids.high order by c.ctid
    loop
        delete from penstock_data.claims c where c.queue_id = v_queue.id and c.token = '' and c.first_id = v_key returning c.* into v_cut;
        v_name := least(v_name, penstock_data.add_slices(v_cut, least(c_claims * p_limit, c_most / p_limit * p_limit)));
    end loop;
    if v_name is not null then
        select * into v_position from penstock_data.position_of(v_queue.id);
        v_position.slices_from := least(v_position.slices_from, v_name);
        v_position.slice_size := v_size;
        v_position.sliced_at := v_now;
        v_position.attend_at := least(v_position.attend_at, v_now + interval '2 seconds');
        perform penstock_data.append_position(v_position);
        perform set_config('penstock.slice', v_name::text, false);
    end if;
    -- From the new slice; without one, from what the others are using.
    return query select * from penstock_data.claim_beside(p_queue_name, p_token, p_seconds, p_limit);
    if found or v_count > 0 then
        return;
    end if;
    if penstock_data.await_slice(v_queue.id) then
        return query select * from penstock_data.claim_beside(p_queue_name, p_token, p_seconds, p_limit);
        if found then
            return;
        end if;
    end if;
    if penstock_data.has_slices(v_queue.id) then
        perform penstock_data.tell_busy(p_queue_name);
    end if;
end
$$;

-- Turn messages that were claimed without a token into slices of p_size.  They belong to no session yet.  Returns the
-- name of the first.
create or replace function penstock_data.add_slices(p_cut penstock_data.claims, p_size int) returns bigint
language plpgsql as $$
declare
    c_names constant bigint := 4611686018427387904;     -- names of slices lie above it, ids of messages below
    v_name  bigint;
    v_first bigint;
begin
    for i in 1 .. cardinality(p_cut.message_ids) by p_size loop
        v_name := c_names + nextval('penstock_data.slice');
        v_first := coalesce(v_first, v_name);
        insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
        values (
            p_cut.queue_id, v_name, p_cut.deadline, p_cut.claimed_at - penstock_data.slice_lease(), '',
            p_cut.message_ids[i:i + p_size - 1], p_cut.attempts[i:i + p_size - 1], p_cut.lanes[i:i + p_size - 1], p_cut.histories);
    end loop;
    return v_first;
end
$$;

-- Has a queue messages in slices?  A claim with the claim lock that gets nothing may have found them locked.
-- slices_from is read first: as a value it bounds the index scan, in a join it would not, and the scan would read the
-- dead rows of all earlier slices.
create or replace function penstock_data.has_slices(p_queue_id bigint) returns boolean
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off as $$
declare
    v_from bigint := (select p.slices_from from penstock_data.position_of(p_queue_id) p);
begin
    return v_from is not null and exists (
        select from penstock_data.claims c where c.queue_id = p_queue_id and c.token = '' and c.first_id >= v_from);
end
$$;

-- All that waits is in slices that are locked.  Wait for the oldest one, a tenth of a second at most: its holder may
-- want the claim lock next.  False: there is none, or it is locked still.
create or replace function penstock_data.await_slice(p_queue_id bigint) returns boolean
language plpgsql as $$
declare
    v_before text := current_setting('lock_timeout');
    v_locked boolean;
begin
    perform set_config('lock_timeout', '100ms', true);
    begin
        perform from penstock_data.claims c
        where c.queue_id = p_queue_id and c.token = '' and c.first_id >= (select p.slices_from from penstock_data.position_of(p_queue_id) p)
        order by c.first_id limit 1 for update;
        v_locked := found;
    exception when lock_not_available then
        v_locked := false;
    end;
    perform set_config('lock_timeout', v_before, true);
    return v_locked;
end
$$;

-- Claim the rest of a batch when a slice has ended within it.
create or replace function penstock_data.claim_rest(p_queue_name text, p_token text, p_seconds int, p_limit int)
returns setof penstock_data.claimed_message
language plpgsql as $$
begin
    if penstock_data.take_claim_lock(p_queue_name, false, false) then
        return query select * from penstock_data.claim_and_share(p_queue_name, p_token, p_seconds, p_limit, null, true);
    else
        return query select * from penstock_data.claim_beside(p_queue_name, p_token, p_seconds, p_limit);
    end if;
end
$$;

-- The slices of a queue after a claim under the claim lock: forget them when none is left.  While there are some,
-- claims without the lock may hold messages that the position knows nothing of, so the next look at deadlines is due in
-- two seconds.
create or replace function penstock_data.with_slices(p_position penstock_data.positions, p_now timestamptz)
returns penstock_data.positions
language plpgsql as $$
declare
    v_first bigint := (
        select c.first_id from penstock_data.claims c
        where c.queue_id = p_position.queue_id and c.token = '' and c.first_id >= p_position.slices_from
        order by c.first_id limit 1);
begin
    p_position.slices_from := v_first;
    if v_first is null then
        p_position.slice_size := null;
        p_position.sliced_at := null;
    end if;
    p_position.attend_at := least(p_position.attend_at, p_now + interval '2 seconds');
    return p_position;
end
$$;

-- Put the rest of the slices of a queue back into the queue.  p_unused_since: of those only that no claim has used
-- since.  Returns how many messages they held.  Slices that are locked are left.
create or replace function penstock_data.end_slices(p_queue_id bigint, p_now timestamptz, p_unused_since timestamptz default 'infinity')
returns int
language plpgsql as $$
declare
    v_slice penstock_data.claims;
    v_count int := 0;
begin
    for v_slice in
        delete from penstock_data.claims c
        where c.ctid = any (array(
            select o.ctid from penstock_data.claims o
            where o.queue_id = p_queue_id and o.token = '' and o.claimed_at <= p_unused_since
            order by o.first_id
            for update skip locked))
        returning c.*
    loop
        v_count := v_count + cardinality(v_slice.message_ids);
        perform penstock_data.put_back(v_slice, 'released', null, null, p_now);
    end loop;
    return v_count;
end
$$;

-- Take one message out of the slice that holds it.  Yields the part taken.  Under the lock of that slice.
create or replace function penstock_data.take_from_slice(p_queue_id bigint, p_message_id bigint) returns penstock_data.claims
language plpgsql as $$
declare
    v_slice penstock_data.claims;
begin
    select * into v_slice from penstock_data.claims c where c.queue_id = p_queue_id and c.token = '' and p_message_id = any (c.message_ids);
    if cardinality(v_slice.message_ids) = 1 then
        delete from penstock_data.claims c where c.queue_id = p_queue_id and c.token = '' and c.first_id = v_slice.first_id;
        return v_slice;
    end if;
    return penstock_data.split_claim(v_slice, array[p_message_id]);
end
$$;
