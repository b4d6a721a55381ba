-- The SQS door.  pgqs holds what people call, pgqs_data what only it touches.
create schema if not exists pgqs;
create schema if not exists pgqs_data;

comment on schema pgqs is 'Penstock: the actions of Amazon SQS, over the same queues';
comment on schema pgqs_data is 'Penstock: tables and internal functions of the SQS door; no role is granted anything here';
