-- The queue that a careful engineer writes first: one row per message and queue, claimed by an
-- UPDATE over FOR UPDATE SKIP LOCKED, removed by a DELETE.

create schema textbook;

create table textbook.message (
    id           bigint generated always as identity primary key,
    queue        text        not null,
    payload      jsonb       not null,
    headers      jsonb,
    visible_at   timestamptz not null default clock_timestamp(),
    read_count   int         not null default 0,
    published_at timestamptz not null default clock_timestamp()
) with (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold    = 1000,
    autovacuum_vacuum_cost_delay   = 0
);

-- Serves the claim's condition and its order, so that neither delayed nor claimed messages are walked over.
create index message_claim_order on textbook.message (queue, visible_at, id);

create function textbook.publish(p_queue text, p_payload jsonb) returns bigint
language plpgsql as $$
declare v_id bigint;
begin
    insert into textbook.message (queue, payload) values (p_queue, p_payload) returning id into v_id;
    return v_id;
end $$;

create function textbook.publish(p_queues text[], p_payloads jsonb[]) returns setof bigint
language plpgsql rows 100 as $$
begin
    return query
    insert into textbook.message (queue, payload)
    select queue, payload from unnest(p_payloads) as payload, unnest(p_queues) as queue
    returning id;
end $$;

create function textbook.claim_one(p_queue text, p_lease_seconds int) returns setof textbook.message
language plpgsql rows 1 as $$
begin
    return query
    update textbook.message m
    set visible_at = clock_timestamp() + make_interval(secs => p_lease_seconds),
        read_count = m.read_count + 1
    where m.id = (
        select c.id
        from textbook.message c
        where c.queue = p_queue and c.visible_at <= clock_timestamp()
        order by c.visible_at, c.id
        limit 1
        for update skip locked
    )
    returning m.*;
end $$;

-- `= any(array(…))` runs the inner query once whatever the plan, and keeps the outer one on the primary key
-- even when the planner can't know the limit; `in (…)` promises neither.
create function textbook.claim(p_queue text, p_lease_seconds int, p_size int) returns setof textbook.message
language plpgsql rows 100 as $$
begin
    return query
    update textbook.message m
    set visible_at = clock_timestamp() + make_interval(secs => p_lease_seconds),
        read_count = m.read_count + 1
    where m.id = any(array(
        select c.id
        from textbook.message c
        where c.queue = p_queue and c.visible_at <= clock_timestamp()
        order by c.visible_at, c.id
        limit p_size
        for update skip locked
    ))
    returning m.*;
end $$;

create function textbook.ack_one(p_id bigint) returns boolean
language plpgsql as $$
begin
    delete from textbook.message where id = p_id;
    return found;
end $$;

create function textbook.ack(p_ids bigint[]) returns bigint
language plpgsql as $$
declare v_count bigint;
begin
    delete from textbook.message where id = any(p_ids);
    get diagnostics v_count = row_count;
    return v_count;
end $$;
