-- The task tables on PostgreSQL 14+:  psql "$DSN" -f postgres_schema.sql,  or  penstock task init.
--
-- Columns are those of the net/mq task queue; all times are UTC.  The indexes stand in claim order
-- and hold only what they are asked for, so a reserve reads a few entries at the end of one of them,
-- however many tasks wait, are delayed or are done.

create table if not exists mq_tasks (
  id            varchar(64) primary key,
  topic         varchar(255) not null,
  tenant_id     varchar(64) not null,
  payload       bytea not null,
  meta          text,                       -- JSON
  priority      int not null default 20,    -- higher goes first
  dedupe_key    varchar(128),
  status        varchar(16) not null,       -- queued, leased, done, dead, expired
  attempts      int not null default 0,     -- counted when reserved
  max_attempts  int not null default 5,
  -- Not before.  A reserve sets it back to created_at when it has passed: the task is ready then.
  available_at  timestamp not null,
  lease_owner   varchar(64),
  lease_until   timestamp,
  expires_at    timestamp,                  -- never delivered after
  last_error    text,
  last_error_at timestamp,
  created_at    timestamp not null,
  updated_at    timestamp not null
) with (fillfactor = 80);                   -- room for the updates that every task sees

create table if not exists mq_task_dlq (
  id         bigserial primary key,
  task_id    varchar(64) not null,
  topic      varchar(255) not null,
  tenant_id  varchar(64) not null,
  payload    bytea not null,
  meta       text,
  reason     text not null,
  failed_at  timestamp not null
);

create table if not exists mq_task_attempts (
  id          bigserial primary key,
  task_id     varchar(64) not null,
  attempt_no  int not null,
  reason      text,
  started_at  timestamp not null,
  finished_at timestamp,
  success     boolean not null default false
);

create table if not exists mq_task_results (
  task_id     varchar(64) primary key,
  result      bytea not null,
  finished_at timestamp not null
);

-- Workers that sleep: an enqueue notifies only when there is one.  Losing it in a crash is harmless.
create unlogged table if not exists mq_task_waiting (
  owner  varchar(64) primary key,
  until  timestamp not null
);

-- Ready tasks in claim order, by topic; and by topic and tenant, for turns, caps and one tenant's work.
create index if not exists mq_tasks_ready_topic
  on mq_tasks (topic, priority desc, created_at, id)
  where status = 'queued' and available_at <= created_at;
create index if not exists mq_tasks_ready_tenant
  on mq_tasks (topic, tenant_id, priority desc, created_at, id)
  where status = 'queued' and available_at <= created_at;

-- What a reserve puts in order first: delays that are over, tasks that are too late, ended leases.
create index if not exists mq_tasks_due
  on mq_tasks (available_at)
  where status = 'queued' and available_at > created_at;
create index if not exists mq_tasks_expiring
  on mq_tasks (expires_at)
  where status = 'queued' and expires_at is not null;
create index if not exists mq_tasks_leases
  on mq_tasks (lease_until)
  where status = 'leased';

create unique index if not exists mq_tasks_dedupe
  on mq_tasks (tenant_id, dedupe_key)
  where dedupe_key is not null;

create index if not exists mq_task_dlq_task on mq_task_dlq (task_id);
create index if not exists mq_task_attempts_task on mq_task_attempts (task_id, attempt_no);
