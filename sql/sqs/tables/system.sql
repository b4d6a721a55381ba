-- This installation of the SQS door: one row, changed by pgqs.configure().
create table if not exists pgqs_data.system (
    single             boolean  primary key default true check (single),
    id                 uuid     not null default gen_random_uuid(),         -- its name in queue URLs of psql users
    recreate_wait      interval not null default '60 seconds' check (recreate_wait >= '0'),  -- after DeleteQueue; 0: none
    purge_wait         interval not null default '60 seconds' check (purge_wait >= '0'),     -- between two PurgeQueue; 0: none
    max_in_flight      int      not null default 120000 check (max_in_flight > 0)            -- per queue
);
insert into pgqs_data.system default values on conflict do nothing;
