-- Which transactions published flagged messages to a topic.  A claim asks this small table, with one look, whether the
-- log holds flagged messages that its queue has not scheduled yet.  maintain() drops what every queue has seen.
create table if not exists penstock_data.flags (
    topic_id  bigint not null,
    xid       xid8   not null default pg_current_xact_id(),
    primary key (topic_id, xid)
);
