-- What people did to queues through the dashboard and the command line: who, when, what.  Never payloads.
create table if not exists penstock_data.audit (
    id      bigint generated always as identity primary key,
    at      timestamptz not null,
    actor   text not null,              -- as the door knows them
    role    name not null,              -- as the database knows them
    action  text not null,
    target  text,                       -- the queue
    detail  jsonb
);
