-- The roles that grant_queue, grant_topic and grant_reader name.  Queues, topics and readers keep names; what counts is
-- the role that had the name when it was granted, so a role created later under the same name gets nothing. rebase()
-- looks the names up again, because a restored database has other role ids.
create table if not exists penstock_data.grantees (
    role_name  name primary key,
    role_id    oid  not null
);
