-- session_mode
-- Said on every new connection: variables of both.  A value that does not fit is an error, not a shorter value; times
-- are UTC whatever the server's zone.
set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00';

-- session_waits
-- Variables of both.  A note such as "the table exists already" would be logged as a warning.
set session innodb_lock_wait_timeout = 5, sql_notes = 0;

-- session_isolation
-- The statement, because the variable has two names: transaction_isolation, and tx_isolation before MariaDB 11.1.
set session transaction isolation level read committed;

-- now
-- UTC_TIMESTAMP(6) and INTERVAL … MICROSECOND: MySQL 5.6.4 and MariaDB 5.3 on.  The session's time
-- zone has no part in it.
select utc_timestamp(6) + interval %(shift)s microsecond;

-- look
-- Parentheses around each SELECT with its own LIMIT in a UNION ALL: both, from the beginning.  The
-- time is a constant for the statement, so each range is searched in its index.
select utc_timestamp(6) + interval %(shift)s microsecond as moment, null as id
union all
(select null, id from mq_tasks {leases}
  where status = 'leased' and lease_until <= utc_timestamp(6) + interval %(shift)s microsecond
  order by lease_until limit %(batch)s)
union all
(select null, id from mq_tasks {expiring}
  where status = 'queued' and expires_at <= utc_timestamp(6) + interval %(shift)s microsecond
  order by expires_at limit %(batch)s)
union all
(select null, id from mq_tasks {due}
  where status = 'queued' and {delayed}
    and available_at <= utc_timestamp(6) + interval %(shift)s microsecond
  order by available_at limit %(batch)s);

-- lock
-- FOR UPDATE SKIP LOCKED: MySQL 8.0.1, MariaDB 10.6.  Rows are found by primary key, in its order;
-- FORCE INDEX keeps a small table from being read, and locked, as a whole.
select id, status, attempts, max_attempts, available_at, lease_owner, lease_until, expires_at,
       created_at, updated_at
from mq_tasks force index (primary)
where id in %(ids)s order by id for update skip locked;

-- make_ready
-- One-table UPDATE by primary key.
update mq_tasks force index (primary) set available_at = created_at where id in %(ids)s;

-- expire
-- As above.  `available_at = available_at` keeps a TIMESTAMP made by hand from moving by itself.
update mq_tasks force index (primary)
set status = 'expired', available_at = available_at, lease_owner = null, lease_until = null,
    updated_at = %(now)s
where id in %(ids)s;

-- requeue
-- MySQL assigns from left to right, so the old owner is read before it is removed.
update mq_tasks force index (primary)
set status = 'queued', available_at = created_at,
    last_error = concat('the lease of ', coalesce(lease_owner, 'an unknown owner'), ' ended in attempt ', attempts),
    last_error_at = %(now)s, lease_owner = null, lease_until = null, updated_at = %(now)s
where id in %(ids)s;

-- copy_to_dlq
-- INSERT … SELECT from another table, without RETURNING.
insert into mq_task_dlq (task_id, topic, tenant_id, payload, meta, reason, failed_at)
select id, topic, tenant_id, payload, meta,
       coalesce(%(reason)s,
                concat('the lease of ', coalesce(lease_owner, 'an unknown owner'), ' ended in attempt ', attempts)),
       %(now)s
from mq_tasks where id in %(ids)s order by id;

-- bury
-- As requeue.
update mq_tasks force index (primary)
set status = 'dead', available_at = available_at,
    last_error = coalesce(%(reason)s,
      concat('the lease of ', coalesce(lease_owner, 'an unknown owner'), ' ended in attempt ', attempts)),
    last_error_at = %(now)s, lease_owner = null, lease_until = null, updated_at = %(now)s
where id in %(ids)s;

-- next_topic
-- MIN behind constants in an index reads one entry in both; asked again and again, from one topic to
-- the next.  (DISTINCT would read the whole backlog on MariaDB.)
select min(topic) from mq_tasks {ready_topic}
where status = 'queued' and {ready} and topic > %(after)s;

-- next_tenant
-- As next_topic; one such look for each topic, joined by UNION ALL.
select min(tenant_id) as tenant_id from mq_tasks {ready_tenant}
where status = 'queued' and {ready} and topic = %(topic)s and tenant_id > %(after)s;

-- next_level
-- As next_tenant; the index has the priorities turned round.
select min({urgency}) as urgency from mq_tasks {ready_topic}
where status = 'queued' and {ready} and topic = %(topic)s and {urgency} > %(after)s;

-- lowest
-- The least of those: a derived table with a name of its own.
select min({column}) from ({each}) as of_topics;

-- heads
-- Reads an index from one end, without locks; the LIMIT ends it.  FORCE INDEX is the same in both, and
-- is used where the index exists.
(select id, topic, tenant_id, priority, created_at from mq_tasks {index}
 where status = 'queued' and {ready} and topic = %(topic)s and {narrower}
   and (expires_at is null or expires_at > %(now)s) and attempts < max_attempts
 order by {order} limit %(limit)s);

-- running
-- Leases that ended were taken back before; one that could not be locked is being extended.
select topic, tenant_id, count(*) from mq_tasks where status = 'leased' group by topic, tenant_id;

-- ready
-- Candidates again, now locked one by one by primary key: SKIP LOCKED as above.  Under READ COMMITTED
-- the locking read sees what others committed meanwhile, and locks no gaps.
select id from mq_tasks force index (primary)
where id in %(ids)s and status = 'queued' and available_at <= created_at
  and (expires_at is null or expires_at > %(now)s) and attempts < max_attempts
order by id for update skip locked;

-- lease
-- Rows that are locked already, by primary key.
update mq_tasks force index (primary)
set status = 'leased', available_at = available_at, lease_owner = %(owner)s, lease_until = %(until)s,
    attempts = attempts + 1, updated_at = %(now)s
where id in %(ids)s;

-- by_ids
-- A plain read.
select id, topic, tenant_id, payload, meta, priority, dedupe_key, status, attempts, max_attempts,
       available_at, lease_owner, lease_until, expires_at, last_error, last_error_at, created_at,
       updated_at
from mq_tasks where id in %(ids)s;

-- ack
-- One row by primary key; the count of rows found says whether the lease held it.
update mq_tasks
set status = 'done', available_at = available_at, lease_owner = null, lease_until = null,
    updated_at = utc_timestamp(6) + interval %(shift)s microsecond
where id = %(id)s and status = 'leased' and lease_owner = %(owner)s and attempts = %(attempt)s
  and lease_until > utc_timestamp(6) + interval %(shift)s microsecond;

-- save_result
-- REPLACE is the same in both, and this table has no other key.
replace into mq_task_results (task_id, result, finished_at)
values (%(id)s, %(result)s, utc_timestamp(6) + interval %(shift)s microsecond);

-- result
-- A plain read.
select result from mq_task_results where task_id = %(id)s;

-- held
-- One row by primary key, waited for.
select attempts, max_attempts, utc_timestamp(6) + interval %(shift)s microsecond
from mq_tasks
where id = %(id)s and status = 'leased' and lease_owner = %(owner)s and attempts = %(attempt)s
  and lease_until > utc_timestamp(6) + interval %(shift)s microsecond
for update;

-- release
-- One row by primary key.
update mq_tasks
set status = 'queued', available_at = coalesce(%(until)s, created_at), lease_owner = null,
    lease_until = null, max_attempts = max_attempts + %(allowed)s,
    last_error = coalesce(%(reason)s, last_error),
    last_error_at = if(%(reason)s is null, last_error_at, %(now)s),
    updated_at = %(now)s
where id = %(id)s;

-- extend
-- One row by primary key.
update mq_tasks
set available_at = available_at,
    lease_until = greatest(lease_until,
      utc_timestamp(6) + interval %(shift)s microsecond + interval %(by)s microsecond)
where id = %(id)s and status = 'leased' and lease_owner = %(owner)s and attempts = %(attempt)s
  and lease_until > utc_timestamp(6) + interval %(shift)s microsecond;

-- lease_until
-- A plain read.
select lease_until from mq_tasks where id = %(id)s;

-- log_attempt
-- A plain insert.
insert into mq_task_attempts (task_id, attempt_no, reason, started_at, finished_at, success)
values (%(id)s, %(attempt)s, %(reason)s, %(started_at)s,
        utc_timestamp(6) + interval %(shift)s microsecond, %(success)s);

-- attempts
-- A plain read.
select task_id, attempt_no, reason, started_at, finished_at, success
from mq_task_attempts where task_id = %(id)s order by attempt_no, id;

-- standing
-- One row by primary key, waited for.
select status, attempts, expires_at, utc_timestamp(6) + interval %(shift)s microsecond
from mq_tasks where id = %(id)s for update;

-- cancel
-- One row by primary key.
update mq_tasks
set status = 'dead', available_at = available_at, lease_owner = null, lease_until = null,
    last_error = %(reason)s, last_error_at = %(now)s, updated_at = %(now)s
where id = %(id)s;

-- revive
-- One row by primary key.
update mq_tasks
set status = 'queued', attempts = 0, available_at = created_at, lease_owner = null,
    lease_until = null, updated_at = %(now)s,
    expires_at = if(expires_at > %(now)s, expires_at, null)
where id = %(id)s;

-- forget_dead
-- By an index where ours exists.
delete from mq_task_dlq where task_id = %(id)s;

-- list_tasks
-- A plain read.
select id, topic, tenant_id, payload, meta, priority, dedupe_key, status, attempts, max_attempts,
       available_at, lease_owner, lease_until, expires_at, last_error, last_error_at, created_at,
       updated_at
from mq_tasks
where (%(status)s is null or status = %(status)s)
  and (%(topic)s is null or topic = %(topic)s)
  and (%(tenant_id)s is null or tenant_id = %(tenant_id)s)
order by created_at desc, id desc limit %(limit)s;

-- list_dlq
-- A plain read.
select id, task_id, topic, tenant_id, payload, meta, reason, failed_at from mq_task_dlq
where (%(topic)s is null or topic = %(topic)s)
  and (%(tenant_id)s is null or tenant_id = %(tenant_id)s)
order by id limit %(limit)s;

-- stats
-- A plain read.
select status, count(*) from mq_tasks
where (%(topic)s is null or topic = %(topic)s)
  and (%(tenant_id)s is null or tenant_id = %(tenant_id)s)
group by status;

-- count_dlq
-- A plain read.
select count(*) from mq_task_dlq
where (%(topic)s is null or topic = %(topic)s)
  and (%(tenant_id)s is null or tenant_id = %(tenant_id)s);

-- oldest_dlq
-- In the order of the primary key, so the LIMIT ends the locking; SKIP LOCKED as above.
select id, task_id from mq_task_dlq
where id > %(after)s
  and (%(topic)s is null or topic = %(topic)s)
  and (%(tenant_id)s is null or tenant_id = %(tenant_id)s)
order by id limit %(limit)s for update skip locked;

-- standings
-- By primary key, in its order, waited for.
select id, status, utc_timestamp(6) + interval %(shift)s microsecond
from mq_tasks force index (primary) where id in %(ids)s order by id for update;

-- replay
-- By primary key.  MySQL assigns from left to right: the last attempt is raised before the attempts
-- are reset.
update mq_tasks force index (primary)
set status = 'queued', available_at = coalesce(greatest(%(until)s, created_at), created_at),
    max_attempts = if(%(reset)s, max_attempts, greatest(max_attempts, attempts + 1)),
    attempts = if(%(reset)s, 0, attempts),
    lease_owner = null, lease_until = null, updated_at = %(now)s,
    expires_at = if(expires_at > %(now)s, expires_at, null)
where id in %(ids)s;

-- restore
-- INSERT … SELECT from another table.
insert into mq_tasks (id, topic, tenant_id, payload, meta, priority, status, attempts, max_attempts,
                      available_at, created_at, updated_at)
select d.task_id, d.topic, d.tenant_id, d.payload, d.meta, 20, 'queued', 0, 5,
       coalesce(greatest(%(until)s, %(now)s), %(now)s), %(now)s, %(now)s
from mq_task_dlq d where d.id in %(numbers)s;

-- drop_dlq
-- By primary key.
delete from mq_task_dlq where id in %(numbers)s;

-- purgeable
-- A plain read: no DELETE with a subquery on its own table, which MySQL refuses.  The id of a
-- schedule's fire must stay taken for as long as a worker may look back.
select id from mq_tasks
where status in %(statuses)s and dedupe_key is null
  and updated_at <= utc_timestamp(6) + interval %(shift)s microsecond - interval %(older_than)s microsecond
  and (left(id, 5) <> 'cron-'
       or created_at <= utc_timestamp(6) + interval %(shift)s microsecond - interval %(remembered)s microsecond)
limit %(limit)s;

-- purge
-- By primary key, checked again.
delete from mq_tasks where id in %(ids)s and status in %(statuses)s;

-- holder_by_id
-- One row by primary key; read once more with FOR UPDATE before its key is taken away.
select id, status, expires_at, created_at, utc_timestamp(6) + interval %(shift)s microsecond
from mq_tasks where id = %(id)s;

-- holder_by_key
-- One row by the unique key; as above.
select id, status, expires_at, created_at, utc_timestamp(6) + interval %(shift)s microsecond
from mq_tasks where tenant_id = %(tenant_id)s and dedupe_key = %(dedupe_key)s;

-- free_key
-- One row by primary key.
update mq_tasks set dedupe_key = null, available_at = available_at where id = %(id)s;

-- insert
-- VALUES with several rows; a duplicate is error 1062 and undoes this statement alone, in both.
insert into mq_tasks (id, topic, tenant_id, payload, meta, priority, dedupe_key, status, attempts,
                      max_attempts, available_at, expires_at, created_at, updated_at)
values {values};

-- cap_lock
-- GET_LOCK and RELEASE_LOCK: both.  One reserve at a time where caps are kept.
select get_lock(%(name)s, %(seconds)s);

-- cap_unlock
-- As above.
select release_lock(%(name)s);

-- probe
-- Fails with a syntax error where the server has no SKIP LOCKED.
select id from mq_tasks where id = '' for update skip locked;

-- version
-- A function of both; MariaDB's answer has its name in it.
select version();

-- columns
-- Views of information_schema with these columns are in both; MySQL gives their names in capitals, so rows are read by
-- position.
select column_name, data_type, datetime_precision, collation_name, extra
from information_schema.columns
where table_schema = coalesce(%(schema)s, database()) and table_name = %(table)s;

-- indexes
-- As above.
select distinct index_name from information_schema.statistics
where table_schema = coalesce(%(schema)s, database()) and table_name = %(table)s;
