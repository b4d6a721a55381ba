-- now
select clock_timestamp() at time zone 'utc' + %(shift)s::interval;

-- look
-- The time is a value of its own, so that the indexes can be searched with it.
with clock as materialized (select clock_timestamp() at time zone 'utc' + %(shift)s::interval as now),
chores as (
  (select id from mq_tasks
    where status = 'leased' and lease_until <= (select now from clock)
    order by lease_until limit %(batch)s)
  union all
  (select id from mq_tasks
    where status = 'queued' and expires_at <= (select now from clock)
    order by expires_at limit %(batch)s)
  union all
  (select id from mq_tasks
    where status = 'queued' and available_at > created_at
      and available_at <= (select now from clock)
    order by available_at limit %(batch)s))
select clock.now, chores.id from clock left join chores on true;

-- lock
select id, status, attempts, max_attempts, available_at, lease_owner, lease_until, expires_at,
       created_at, updated_at
from mq_tasks where id = any(%(ids)s) order by id for update skip locked;

-- make_ready
update mq_tasks set available_at = created_at where id = any(%(ids)s);

-- expire
update mq_tasks
set status = 'expired', lease_owner = null, lease_until = null, updated_at = %(now)s
where id = any(%(ids)s);

-- requeue
update mq_tasks
set status = 'queued', available_at = created_at,
    last_error = 'the lease of ' || coalesce(lease_owner, 'an unknown owner') || ' ended in attempt ' || attempts,
    last_error_at = %(now)s, lease_owner = null, lease_until = null, updated_at = %(now)s
where id = any(%(ids)s);

-- copy_to_dlq
insert into mq_task_dlq (task_id, topic, tenant_id, payload, meta, reason, failed_at)
select id, topic, tenant_id, payload, meta,
       coalesce(%(reason)s::text,
                'the lease of ' || coalesce(lease_owner, 'an unknown owner') || ' ended in attempt ' || attempts),
       %(now)s
from mq_tasks where id = any(%(ids)s) order by id;

-- bury
update mq_tasks
set status = 'dead',
    last_error = coalesce(%(reason)s::text,
      'the lease of ' || coalesce(lease_owner, 'an unknown owner') || ' ended in attempt ' || attempts),
    last_error_at = %(now)s, lease_owner = null, lease_until = null, updated_at = %(now)s
where id = any(%(ids)s);

-- topics
-- From one topic to the next by the index: as many steps as there are topics.
with recursive found as (
  (select topic from mq_tasks where status = 'queued' and available_at <= created_at
   order by topic limit 1)
  union all
  select (select t.topic from mq_tasks t
          where t.status = 'queued' and t.available_at <= t.created_at and t.topic > found.topic
          order by t.topic limit 1)
  from found where found.topic is not null)
select topic from found where topic is not null;

-- next_tenant
select min(next.tenant_id)
from unnest(%(topics)s::text[]) as wanted (topic)
cross join lateral (
  select t.tenant_id from mq_tasks t
  where t.status = 'queued' and t.available_at <= t.created_at
    and t.topic = wanted.topic and t.tenant_id > %(after)s
  order by t.tenant_id limit 1) as next;

-- levels
-- From one priority to the next lower one, in each topic.
with recursive found as (
  select wanted.topic,
         (select t.priority from mq_tasks t
          where t.status = 'queued' and t.available_at <= t.created_at and t.topic = wanted.topic
          order by t.priority desc limit 1) as priority
  from unnest(%(topics)s::text[]) as wanted (topic)
  union all
  select found.topic,
         (select t.priority from mq_tasks t
          where t.status = 'queued' and t.available_at <= t.created_at
            and t.topic = found.topic and t.priority < found.priority
          order by t.priority desc limit 1)
  from found where found.priority is not null)
select distinct priority from found where priority is not null;

-- heads
select head.*
from unnest(%(topics)s::text[]) as wanted (topic)
cross join lateral (
  select t.id, t.topic, t.tenant_id, t.priority, t.created_at from mq_tasks t
  where t.status = 'queued' and t.available_at <= t.created_at and t.topic = wanted.topic
    and (t.expires_at is null or t.expires_at > %(now)s) and t.attempts < t.max_attempts
  order by t.priority desc, t.created_at, t.id limit %(limit)s) as head;

-- heads_of_tenant
select head.*
from unnest(%(topics)s::text[]) as wanted (topic)
cross join lateral (
  select t.id, t.topic, t.tenant_id, t.priority, t.created_at from mq_tasks t
  where t.status = 'queued' and t.available_at <= t.created_at and t.topic = wanted.topic
    and t.tenant_id = %(tenant_id)s
    and (t.expires_at is null or t.expires_at > %(now)s) and t.attempts < t.max_attempts
  order by t.priority desc, t.created_at, t.id limit %(limit)s) as head;

-- heads_of_level
select head.*
from unnest(%(topics)s::text[]) as wanted (topic)
cross join lateral (
  select t.id, t.topic, t.tenant_id, t.priority, t.created_at from mq_tasks t
  where t.status = 'queued' and t.available_at <= t.created_at and t.topic = wanted.topic
    and t.priority = %(priority)s
    and (t.expires_at is null or t.expires_at > %(now)s) and t.attempts < t.max_attempts
  order by t.priority desc, t.created_at, t.id limit %(limit)s) as head;

-- heads_of_tenant_and_level
select head.*
from unnest(%(topics)s::text[]) as wanted (topic)
cross join lateral (
  select t.id, t.topic, t.tenant_id, t.priority, t.created_at from mq_tasks t
  where t.status = 'queued' and t.available_at <= t.created_at and t.topic = wanted.topic
    and t.tenant_id = %(tenant_id)s and t.priority = %(priority)s
    and (t.expires_at is null or t.expires_at > %(now)s) and t.attempts < t.max_attempts
  order by t.priority desc, t.created_at, t.id limit %(limit)s) as head;

-- cap_lock
-- One reserve at a time where caps are kept; a lock of our own class, and of this table.
select pg_advisory_xact_lock(7310521, %(key)s::int);

-- running
-- Leases that ended were taken back before; one that could not be locked is being extended.
select topic, tenant_id, count(*) from mq_tasks where status = 'leased' group by topic, tenant_id;

-- ready
select id from mq_tasks
where id = any(%(ids)s) and status = 'queued' and available_at <= created_at
  and (expires_at is null or expires_at > %(now)s) and attempts < max_attempts
order by id for update skip locked;

-- lease
update mq_tasks
set status = 'leased', lease_owner = %(owner)s, lease_until = %(until)s, attempts = attempts + 1,
    updated_at = %(now)s
where id = any(%(ids)s);

-- by_ids
select id, topic, tenant_id, payload, meta, priority, dedupe_key, status, attempts, max_attempts,
       available_at, lease_owner, lease_until, expires_at, last_error, last_error_at, created_at,
       updated_at
from mq_tasks where id = any(%(ids)s);

-- take
-- The whole of a plain reserve.  Rows are locked as the limit asks for them, no more.  A lease need
-- not be durable: one that a crash loses is a task that is reserved again.
with heads as materialized (
  select head.id, head.priority, head.created_at
  from unnest(%(topics)s::text[]) as wanted (topic)
  cross join lateral (
    select t.id, t.priority, t.created_at from mq_tasks t
    where t.status = 'queued' and t.available_at <= t.created_at and t.topic = wanted.topic
      and (t.expires_at is null or t.expires_at > %(now)s) and t.attempts < t.max_attempts
    order by t.priority desc, t.created_at, t.id limit %(window)s) as head
  order by head.priority desc, head.created_at, head.id limit %(window)s),
chosen as materialized (
  -- One lookup by id for each, in their order: a join might read the whole table instead.
  select locked.id
  from heads cross join lateral (
    select t.id from mq_tasks t
    where t.id = heads.id and t.status = 'queued' and t.available_at <= t.created_at
    for update skip locked) as locked
  limit %(limit)s),
taken as (
  update mq_tasks t
  set status = 'leased', lease_owner = %(owner)s, lease_until = %(until)s,
      attempts = t.attempts + 1, updated_at = %(now)s
  from chosen where t.id = chosen.id
  returning t.id, t.topic, t.tenant_id, t.payload, t.meta, t.priority, t.dedupe_key, t.status,
            t.attempts, t.max_attempts, t.available_at, t.lease_owner, t.lease_until, t.expires_at,
            t.last_error, t.last_error_at, t.created_at, t.updated_at)
select seen.count, set_config('synchronous_commit', 'off', true), taken.*
from (select count(*) from heads) as seen left join taken on true;

-- ack
update mq_tasks
set status = 'done', lease_owner = null, lease_until = null,
    updated_at = clock_timestamp() at time zone 'utc' + %(shift)s::interval
where id = %(id)s and status = 'leased' and lease_owner = %(owner)s and attempts = %(attempt)s
  and lease_until > clock_timestamp() at time zone 'utc' + %(shift)s::interval;

-- save_result
insert into mq_task_results (task_id, result, finished_at)
values (%(id)s, %(result)s, clock_timestamp() at time zone 'utc' + %(shift)s::interval)
on conflict (task_id) do update set result = excluded.result, finished_at = excluded.finished_at;

-- result
select result from mq_task_results where task_id = %(id)s;

-- held
select attempts, max_attempts, clock_timestamp() at time zone 'utc' + %(shift)s::interval
from mq_tasks
where id = %(id)s and status = 'leased' and lease_owner = %(owner)s and attempts = %(attempt)s
  and lease_until > clock_timestamp() at time zone 'utc' + %(shift)s::interval
for update;

-- release
update mq_tasks
set status = 'queued', available_at = coalesce(%(until)s::timestamp, created_at), lease_owner = null,
    lease_until = null, max_attempts = max_attempts + %(allowed)s,
    last_error = coalesce(%(reason)s::text, last_error),
    last_error_at = case when %(reason)s::text is null then last_error_at else %(now)s::timestamp end,
    updated_at = %(now)s
where id = %(id)s;

-- extend
update mq_tasks
set lease_until = greatest(lease_until, clock_timestamp() at time zone 'utc' + %(shift)s::interval + %(by)s::interval)
where id = %(id)s and status = 'leased' and lease_owner = %(owner)s and attempts = %(attempt)s
  and lease_until > clock_timestamp() at time zone 'utc' + %(shift)s::interval;

-- lease_until
select lease_until from mq_tasks where id = %(id)s;

-- log_attempt
insert into mq_task_attempts (task_id, attempt_no, reason, started_at, finished_at, success)
values (%(id)s, %(attempt)s, %(reason)s, %(started_at)s,
        clock_timestamp() at time zone 'utc' + %(shift)s::interval, %(success)s);

-- attempts
select task_id, attempt_no, reason, started_at, finished_at, success
from mq_task_attempts where task_id = %(id)s order by attempt_no, id;

-- standing
select status, attempts, expires_at, clock_timestamp() at time zone 'utc' + %(shift)s::interval
from mq_tasks where id = %(id)s for update;

-- cancel
update mq_tasks
set status = 'dead', lease_owner = null, lease_until = null, last_error = %(reason)s,
    last_error_at = %(now)s, updated_at = %(now)s
where id = %(id)s;

-- revive
update mq_tasks
set status = 'queued', attempts = 0, available_at = created_at, lease_owner = null,
    lease_until = null, updated_at = %(now)s,
    expires_at = case when expires_at > %(now)s then expires_at end
where id = %(id)s;

-- forget_dead
delete from mq_task_dlq where task_id = %(id)s;

-- list_tasks
select id, topic, tenant_id, payload, meta, priority, dedupe_key, status, attempts, max_attempts,
       available_at, lease_owner, lease_until, expires_at, last_error, last_error_at, created_at,
       updated_at
from mq_tasks
where (%(status)s::text is null or status = %(status)s)
  and (%(topic)s::text is null or topic = %(topic)s)
  and (%(tenant_id)s::text is null or tenant_id = %(tenant_id)s)
order by created_at desc, id desc limit %(limit)s;

-- list_dlq
select id, task_id, topic, tenant_id, payload, meta, reason, failed_at from mq_task_dlq
where (%(topic)s::text is null or topic = %(topic)s)
  and (%(tenant_id)s::text is null or tenant_id = %(tenant_id)s)
order by id limit %(limit)s;

-- stats
select status, count(*) from mq_tasks
where (%(topic)s::text is null or topic = %(topic)s)
  and (%(tenant_id)s::text is null or tenant_id = %(tenant_id)s)
group by status;

-- count_dlq
select count(*) from mq_task_dlq
where (%(topic)s::text is null or topic = %(topic)s)
  and (%(tenant_id)s::text is null or tenant_id = %(tenant_id)s);

-- oldest_dlq
select id, task_id from mq_task_dlq
where id > %(after)s
  and (%(topic)s::text is null or topic = %(topic)s)
  and (%(tenant_id)s::text is null or tenant_id = %(tenant_id)s)
order by id limit %(limit)s for update skip locked;

-- standings
select id, status, clock_timestamp() at time zone 'utc' + %(shift)s::interval
from mq_tasks where id = any(%(ids)s) order by id for update;

-- replay
-- Attempts that stay counted allow one more.
update mq_tasks
set status = 'queued', available_at = coalesce(greatest(%(until)s::timestamp, created_at), created_at),
    attempts = case when %(reset)s then 0 else attempts end,
    max_attempts = case when %(reset)s then max_attempts else greatest(max_attempts, attempts + 1) end,
    lease_owner = null, lease_until = null, updated_at = %(now)s,
    expires_at = case when expires_at > %(now)s then expires_at end
where id = any(%(ids)s);

-- restore
-- The task's own row is gone: what its dead letter knows makes a new one.
insert into mq_tasks (id, topic, tenant_id, payload, meta, priority, status, attempts, max_attempts,
                      available_at, created_at, updated_at)
select d.task_id, d.topic, d.tenant_id, d.payload, d.meta, 20, 'queued', 0, 5,
       coalesce(greatest(%(until)s::timestamp, %(now)s), %(now)s), %(now)s, %(now)s
from mq_task_dlq d where d.id = any(%(numbers)s);

-- drop_dlq
delete from mq_task_dlq where id = any(%(numbers)s);

-- purge
-- The id of a schedule's fire must stay taken for as long as a worker may look back.
delete from mq_tasks where id = any(array(
  select id from mq_tasks
  where status = any(%(statuses)s) and dedupe_key is null
    and updated_at <= clock_timestamp() at time zone 'utc' + %(shift)s::interval - %(older_than)s::interval
    and (left(id, 5) <> 'cron-'
         or created_at <= clock_timestamp() at time zone 'utc' + %(shift)s::interval - %(remembered)s::interval)
  order by id limit %(limit)s for update skip locked));

-- holder_by_id
select id, status, expires_at, created_at, clock_timestamp() at time zone 'utc' + %(shift)s::interval
from mq_tasks where id = %(id)s;

-- holder_by_key
select id, status, expires_at, created_at, clock_timestamp() at time zone 'utc' + %(shift)s::interval
from mq_tasks where tenant_id = %(tenant_id)s and dedupe_key = %(dedupe_key)s;

-- free_key
update mq_tasks set dedupe_key = null where id = %(id)s returning id;

-- insert
-- Tasks of one call differ by microseconds, so that they keep their order; they are written in the
-- order of their keys, so that two calls with the same keys don't wait for each other crosswise.
with clock as materialized (select clock_timestamp() at time zone 'utc' + %(shift)s::interval as now),
given as (
  select *, clock.now + (position - 1) * interval '1 microsecond' as created_at
  from clock, unnest(%(ids)s::text[], %(topics)s::text[], %(tenants)s::text[], %(payloads)s::bytea[],
         %(metas)s::text[], %(priorities)s::int[], %(keys)s::text[], %(max_attempts)s::int[],
         %(delays)s::interval[], %(available)s::timestamp[], %(expires_in)s::interval[],
         %(expires)s::timestamp[])
    with ordinality as t (id, topic, tenant_id, payload, meta, priority, dedupe_key, max_attempts,
                          delay, available_at, expires_in, expires_at, position))
insert into mq_tasks (id, topic, tenant_id, payload, meta, priority, dedupe_key, status, attempts,
                      max_attempts, available_at, expires_at, created_at, updated_at)
select id, topic, tenant_id, payload, meta, priority, dedupe_key, 'queued', 0, max_attempts,
       greatest(coalesce(available_at, created_at + delay, created_at), created_at),
       coalesce(expires_at, created_at + expires_in), created_at, created_at
from given
order by tenant_id, dedupe_key, id
on conflict do nothing
returning id;

-- notify
-- NOTIFY makes commits queue up behind each other, so it is used only when a worker waits.
select pg_notify(%(channel)s, '') from mq_task_waiting
where until > clock_timestamp() at time zone 'utc' limit 1;

-- start_waiting
insert into mq_task_waiting (owner, until)
values (%(owner)s, clock_timestamp() at time zone 'utc' + %(for)s::interval)
on conflict (owner) do update set until = excluded.until
returning owner;

-- stop_waiting
delete from mq_task_waiting where owner = %(owner)s returning owner;
