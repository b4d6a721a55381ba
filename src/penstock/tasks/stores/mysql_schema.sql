-- The task tables on MySQL 8.0+ and MariaDB 10.6+:  mysql shop < mysql_schema.sql,  or  penstock task init.
--
-- Columns are those of the net/mq task queue, with room for any payload, for times past 2038 in
-- microseconds (all UTC), and a collation that tells Key, key and "key " apart.  Two columns are
-- computed, so that the indexes can stand in claim order on every version: `waiting` is 1 while a
-- delay is not over, `urgency` is the priority turned round, because older versions sort upwards only.
--
-- /*M! */ is read by MariaDB alone, /*!80017 */ by MySQL alone: their collations without padding
-- have different names.

create table if not exists mq_tasks (
  id            varchar(64) not null primary key,
  topic         varchar(255) not null,
  tenant_id     varchar(64) not null,
  payload       longblob not null,
  meta          longtext null,              -- JSON
  priority      int not null default 20,    -- higher goes first
  dedupe_key    varchar(128) null,
  status        varchar(16) not null,       -- queued, leased, done, dead, expired
  attempts      int not null default 0,     -- counted when reserved
  max_attempts  int not null default 5,
  -- Not before.  A reserve sets it back to created_at when it has passed: the task is ready then.
  available_at  datetime(6) not null,
  lease_owner   varchar(64) null,
  lease_until   datetime(6) null,
  expires_at    datetime(6) null,           -- never delivered after
  last_error    text null,
  last_error_at datetime(6) null,
  created_at    datetime(6) not null,
  updated_at    datetime(6) not null,
  waiting       tinyint generated always as (available_at > created_at) stored,
  urgency       bigint generated always as (0 - priority) stored,
  -- Ready tasks in claim order, by topic; and by topic and tenant, for turns, caps and one tenant.
  key mq_tasks_ready_topic (status, waiting, topic, urgency, created_at, id),
  key mq_tasks_ready_tenant (status, waiting, topic, tenant_id, urgency, created_at, id),
  -- What a reserve puts in order first: delays that are over, tasks that are too late, ended leases.
  key mq_tasks_due (status, waiting, available_at),
  key mq_tasks_expiring (status, expires_at),
  key mq_tasks_leases (status, lease_until),
  unique key mq_tasks_dedupe (tenant_id, dedupe_key)
) engine = InnoDB default character set utf8mb4
  /*M!100600 collate utf8mb4_nopad_bin */ /*!80017 collate utf8mb4_0900_bin */;

create table if not exists mq_task_dlq (
  id         bigint not null primary key auto_increment,
  task_id    varchar(64) not null,
  topic      varchar(255) not null,
  tenant_id  varchar(64) not null,
  payload    longblob not null,
  meta       longtext null,
  reason     text not null,
  failed_at  datetime(6) not null,
  key mq_task_dlq_task (task_id)
) engine = InnoDB default character set utf8mb4
  /*M!100600 collate utf8mb4_nopad_bin */ /*!80017 collate utf8mb4_0900_bin */;

create table if not exists mq_task_attempts (
  id          bigint not null primary key auto_increment,
  task_id     varchar(64) not null,
  attempt_no  int not null,
  reason      text null,
  started_at  datetime(6) not null,
  finished_at datetime(6) null,
  success     boolean not null default false,
  key mq_task_attempts_task (task_id, attempt_no)
) engine = InnoDB default character set utf8mb4
  /*M!100600 collate utf8mb4_nopad_bin */ /*!80017 collate utf8mb4_0900_bin */;

create table if not exists mq_task_results (
  task_id     varchar(64) not null primary key,
  result      longblob not null,
  finished_at datetime(6) not null
) engine = InnoDB default character set utf8mb4
  /*M!100600 collate utf8mb4_nopad_bin */ /*!80017 collate utf8mb4_0900_bin */;
