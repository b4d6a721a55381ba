-- The log of all topics.  Append-only; segments are emptied by TRUNCATE (log/segments.sql).
-- Segment 0 keeps the few messages that are still needed after their own segment was emptied.
create sequence if not exists penstock_data.message_id;

create table if not exists penstock_data.messages (
    -- xid stands before id: defaults are evaluated in this order, so an id is always drawn after its xid was assigned.
    -- Ordered windows (log/windows.sql) rely on it.
    xid             xid8        not null default pg_current_xact_id(),
    id              bigint      not null default nextval('penstock_data.message_id'),
    topic_id        bigint      not null,
    published_at    timestamptz not null default clock_timestamp(),
    segment         int         not null,
    priority        int         not null default 0,
    deliver_after   timestamptz,
    expires_at      timestamptz,
    flagged         boolean     not null default false,     -- has a priority or a delay, so it must not wait in line
    key             text,
    correlation_id  text,
    tenant_id       text,
    dedupe_key      text,
    payload         jsonb       not null,
    headers         jsonb
) partition by list (segment);

do $$
begin
    if to_regclass('penstock_data.messages_window') is null then
        create index messages_window on penstock_data.messages (topic_id, xid, id);
    end if;
    if to_regclass('penstock_data.messages_id') is null then
        create index messages_id on penstock_data.messages (topic_id, id);
    end if;
    if to_regclass('penstock_data.messages_flagged') is null then
        create index messages_flagged on penstock_data.messages (topic_id, xid, id) where flagged;
    end if;
end
$$;

create table if not exists penstock_data.messages_0 partition of penstock_data.messages for values in (0);
-- The first segments; later ones are added and dropped (schema/tables/segments.sql knows them).
do $$
begin
    if to_regclass('penstock_data.segments') is null then
        create table penstock_data.messages_1 partition of penstock_data.messages for values in (1);
        create table penstock_data.messages_2 partition of penstock_data.messages for values in (2);
        create table penstock_data.messages_3 partition of penstock_data.messages for values in (3);
    end if;
end
$$;
