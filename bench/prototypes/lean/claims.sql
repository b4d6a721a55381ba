-- A claim in three statements that read one index each: how cheap a claim can be.  See README.md beside this file.
-- For an empty database with Penstock installed and some queues on one topic; measures, and is not the engine.

-- One row is the position of a queue and a claim, and it knows what a claim has to know of its queue.
create table penstock_data.chain (
    name         text        not null,      -- of the queue
    seq          bigint      not null,
    xid          xid8        not null default pg_current_xact_id(),
    queue_id     bigint      not null,
    topic_id     bigint      not null,
    segment      int         not null,      -- the only segment of the log with unread messages
    last_xid     xid8        not null,      -- read up to here
    last_id      bigint      not null,
    care         boolean,                   -- more than the log needs a look
    attend_at    timestamptz not null,      -- when a claim ends, or something becomes due
    clock_shift  interval    not null,
    first_id     bigint      not null,      -- the claim
    message_ids  bigint[]    not null,
    deadline     timestamptz not null,
    claimed_at   timestamptz not null,
    token        text        not null
);
create unique index chain_seq on penstock_data.chain (name, seq);
create index chain_claim on penstock_data.chain (queue_id, token, first_id);

insert into penstock_data.chain (
    name, seq, queue_id, topic_id, segment, last_xid, last_id, attend_at, clock_shift, first_id, message_ids, deadline, claimed_at, token)
select q.name, 0, q.id, q.topic_id, 1, '3', 0, 'infinity', '0', 0, '{}', 'infinity', clock_timestamp(), '' from penstock_data.queues q;

create function penstock.lean_claim(queue_name text, consumer_token text, vt_seconds int)
returns table (
    message_id bigint, payload jsonb, headers jsonb, key text, priority int, delivery_attempts int, vt timestamptz,
    published_at timestamptz, correlation_id text, tenant_id text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_at  record;
    v_xid xid8;
begin
    if (current_setting('transaction_isolation') = 'read committed' and vt_seconds between 0 and 604800
        and octet_length(consumer_token) between 1 and 1024 and pg_try_advisory_xact_lock(hashtextextended(queue_name, 5))
       ) is not true then
        return;
    end if;
    select c.queue_id, c.seq, c.topic_id, c.segment, c.last_xid, c.last_id, c.care, c.attend_at, c.clock_shift,
        clock_timestamp() + c.clock_shift as now, pg_snapshot_xmin(pg_current_snapshot()) as xmin
    into v_at
    from penstock_data.chain c where c.name = queue_name order by c.seq desc limit 1;
    if v_at.care or v_at.attend_at <= v_at.now then
        return;
    end if;
    select m.id, m.payload, m.headers, m.key, 0, 1, v_at.now + vt_seconds * interval '1 second', m.published_at, m.correlation_id,
        m.tenant_id, m.xid
    into message_id, payload, headers, key, priority, delivery_attempts, vt, published_at, correlation_id, tenant_id, v_xid
    from penstock_data.messages m
    where m.segment = v_at.segment and m.topic_id = v_at.topic_id and not m.flagged and (m.xid, m.id) > (v_at.last_xid, v_at.last_id)
      and m.xid < v_at.xmin
    order by m.xid, m.id limit 1;
    if message_id is null then
        return;
    end if;
    insert into penstock_data.chain (
        name, seq, queue_id, topic_id, segment, last_xid, last_id, attend_at, clock_shift, first_id, message_ids, deadline, claimed_at, token)
    values (
        queue_name, v_at.seq + 1, v_at.queue_id, v_at.topic_id, v_at.segment, v_xid, lean_claim.message_id,
        least(v_at.attend_at, lean_claim.vt), v_at.clock_shift, lean_claim.message_id, array[lean_claim.message_id], lean_claim.vt, v_at.now,
        consumer_token);
    return next;
end
$$;

-- An ack appends one receipt and changes nothing else.  Whether the claim was acked before is not asked here.
create function penstock.lean_ack(queue_name text, message_id bigint, consumer_token text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
begin
    insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids)
    select c.queue_id, c.claimed_at, clock_timestamp(), s.receipt_segment, 'acked', c.token, c.message_ids
    from penstock_data.queues q
    cross join penstock_data.settings s
    join penstock_data.chain c on c.queue_id = q.id
    where q.name = queue_name and c.token = consumer_token and c.first_id = lean_ack.message_id;
    return found;
end
$$;
