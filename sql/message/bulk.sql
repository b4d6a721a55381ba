-- Bulk publishing with COPY, in three statements of one transaction:
--     select penstock.create_stage();
--     copy penstock_stage (payload, key) from stdin;
--     select penstock.publish_stage('orders');
-- The stage is a temporary table of the caller's own, dropped at commit.  So the caller needs no rights on the log, and
-- a failed load leaves nothing behind.  Both functions run with the caller's rights.
-- Roles: publisher, admin
create or replace function penstock.create_stage() returns void
language plpgsql security invoker as $$
begin
    create temporary table penstock_stage (
        place           bigint generated always as identity,
        payload         jsonb not null,
        headers         jsonb,
        key             text,
        priority        int,
        deliver_after   timestamptz,
        expires_at      timestamptz,
        correlation_id  text,
        tenant_id       text,
        dedupe_key      text
    ) on commit drop;
end
$$;
comment on function penstock.create_stage() is 'Create the temporary table penstock_stage, to be filled by COPY.';

-- Publish what was copied into the stage, in its order.  Returns how many rows were published.
-- Along an index that is made when the rows are there: without one, each chunk would read the whole stage.
-- Roles: publisher, admin
create or replace function penstock.publish_stage(topic_name text) returns bigint
language plpgsql security invoker
set enable_seqscan = off
set enable_bitmapscan = off
set client_min_messages = warning
as $$
declare
    c_chunk  constant int := 5000;
    v_from   bigint := -1;
    v_count  bigint := 0;
    v_rows   record;
begin
    create index if not exists penstock_stage_place on pg_temp.penstock_stage (place);
    loop
        select
            count(*) as count, max(s.place) as last, array_agg(s.payload order by s.place) as payloads,
            array_agg(s.deliver_after order by s.place) as delays, array_agg(s.headers order by s.place) as headers,
            array_agg(s.key order by s.place) as keys, array_agg(s.priority order by s.place) as priorities,
            array_agg(s.expires_at order by s.place) as expiries, array_agg(s.correlation_id order by s.place) as correlations,
            array_agg(s.tenant_id order by s.place) as tenants,
            case when count(s.dedupe_key) > 0 then array_agg(s.dedupe_key order by s.place) end as dedupe_keys
        into v_rows
        from (select * from pg_temp.penstock_stage s where s.place > v_from order by s.place limit c_chunk) s;
        exit when v_rows.count = 0;
        perform count(*) from penstock.publish_messages(topic_name, v_rows.payloads, v_rows.delays, v_rows.headers, v_rows.keys,
            v_rows.priorities, v_rows.expiries, v_rows.dedupe_keys, v_rows.correlations, v_rows.tenants);
        v_from := v_rows.last;
        v_count := v_count + v_rows.count;
    end loop;
    delete from pg_temp.penstock_stage;
    return v_count;
end
$$;
comment on function penstock.publish_stage(text) is 'Publish the rows copied into penstock_stage; returns how many.';
