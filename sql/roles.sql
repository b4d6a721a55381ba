-- Least privilege: nothing is executable by PUBLIC, and each role gets just its own functions.
do $$
declare
    v_role text;
begin
    foreach v_role in array array['penstock_publisher', 'penstock_consumer', 'penstock_monitor', 'penstock_admin'] loop
        if not exists (select from pg_roles where rolname = v_role) then
            execute format('create role %I nologin', v_role);
        end if;
    end loop;
exception
    when insufficient_privilege then
        raise warning 'the penstock roles were not created, because % may not create roles; only the owner can use Penstock for now', current_user;
    when duplicate_object or unique_violation then
        null;       -- another installation in this cluster creates them at this moment
end
$$;

revoke all on schema penstock, penstock_data, penstock_stage, pgqs, pgqs_data from public;
revoke all on all tables in schema penstock, penstock_data, pgqs, pgqs_data from public;
revoke all on all routines in schema penstock, penstock_data, pgqs, pgqs_data from public;

-- ALTER DEFAULT PRIVILEGES may have granted what was created above to other roles.  In the schemas that only the engine
-- touches, no other role keeps anything; in the others, the roles that the default privileges name lose what they got.
do $$
declare
    v_revoke text;
begin
    for v_revoke in
        with schemas as (
            select n.oid, n.nspname in ('penstock_data', 'pgqs_data') as closed, n.nspacl, n.nspowner, n.nspname from pg_namespace n
            where n.nspname in ('penstock', 'penstock_data', 'penstock_stage', 'pgqs', 'pgqs_data')
        ), by_default as (
            select a.grantee from pg_default_acl d cross join lateral aclexplode(d.defaclacl) a
            where a.grantee not in (0, d.defaclrole)
        ), grants as (
            select 'table ' || c.oid::regclass as object, a.grantee, s.closed
            from pg_class c join schemas s on s.oid = c.relnamespace cross join lateral aclexplode(c.relacl) a
            where c.relkind in ('r', 'p', 'v', 'S') and a.grantee not in (0, c.relowner) and s.nspname <> 'penstock_stage'
            union
            select 'function ' || p.oid::regprocedure, a.grantee, s.closed
            from pg_proc p join schemas s on s.oid = p.pronamespace cross join lateral aclexplode(p.proacl) a
            where a.grantee not in (0, p.proowner) and p.prokind = 'f'
            union
            select 'procedure ' || p.oid::regprocedure, a.grantee, s.closed
            from pg_proc p join schemas s on s.oid = p.pronamespace cross join lateral aclexplode(p.proacl) a
            where a.grantee not in (0, p.proowner) and p.prokind = 'p'
            union
            select format('schema %I', s.nspname), a.grantee, s.closed
            from schemas s cross join lateral aclexplode(s.nspacl) a where a.grantee not in (0, s.nspowner)
        )
        select format('revoke all on %s from %I', g.object, r.rolname)
        from grants g join pg_roles r on r.oid = g.grantee
        where g.closed or g.grantee in (select b.grantee from by_default b)
    loop
        execute v_revoke;
    end loop;
end
$$;

do $$
declare
    v_grants constant jsonb := '{
        "penstock_publisher": ["publish_message", "publish_messages", "create_stage", "publish_stage",
            "open_part", "publish_part", "commit_write", "abort_write", "is_written", "check_publishing",
            "import_progress", "note_import"],
        "penstock_consumer": ["consume_message", "consume_messages_batch", "ack_message", "ack_messages", "ack_and_consume", "ack_and_consume_batch", "nack_message",
            "nack_messages", "fail_messages", "bury_message", "release_message", "release_messages", "extend_message_vt",
            "batch_extend_message_vt", "extend_queue_keep_alive", "get_next_visible_time", "message_state", "browse_messages",
            "find_messages", "inspect_message", "suspect_messages", "start_waiting", "queue_channel", "read_window", "commit_window", "maintain", "maintain_step", "maintenance_steps", "run_maintenance", "readable_topics", "readable_queues",
            "log_offset", "next_offset", "split_log", "next_receipts", "split_receipts", "check_kept", "open_stream", "commit_stream", "safe_offset",
            "wait_for_log"],
        "penstock_monitor": ["list_topics", "list_queues", "list_readers", "list_streams", "queue_contents", "get_queue_statistics", "message_state", "health",
            "configuration", "get_next_visible_time", "queue_overview", "activity", "queue_history", "list_consumers",
            "reader_overview", "segment_overview", "horizon_holders", "list_schedules", "list_actions", "maintenance_steps"]
    }';
    v_role text;
    v_function regprocedure;
begin
    if not exists (select from pg_roles where rolname = 'penstock_admin') then
        return;
    end if;
    grant usage on schema penstock to penstock_publisher, penstock_consumer, penstock_monitor, penstock_admin;
    grant execute on function penstock.schema_version(), penstock.schema_fingerprint(), penstock.error_codes(), penstock.clock()
        to penstock_publisher, penstock_consumer, penstock_monitor;
    grant execute on all routines in schema penstock to penstock_admin;
    for v_role, v_function in
        select g.key, p.oid::regprocedure
        from jsonb_each(v_grants) g, jsonb_array_elements_text(g.value) f(name)
        join pg_proc p on p.proname = f.name and p.pronamespace = 'penstock'::regnamespace
    loop
        execute format('grant execute on routine %s to %I', v_function, v_role);
    end loop;
    -- What each role may do through SQS is decided for each action (pgqs_data.check_right).
    grant usage on schema pgqs to penstock_publisher, penstock_consumer, penstock_monitor, penstock_admin;
    grant execute on function pgqs.invoke(text, jsonb, jsonb), pgqs.invoke_many(text, jsonb[], jsonb[]),
        pgqs.invoke_on(text, text, jsonb, jsonb), pgqs.engine_queue(text, text, text)
        to penstock_publisher, penstock_consumer, penstock_monitor;
    grant execute on function pgqs.run_move_tasks() to penstock_consumer;
    grant execute on all functions in schema pgqs to penstock_admin;
    grant select on pgqs.error_shapes to penstock_publisher, penstock_consumer, penstock_monitor, penstock_admin;
    grant select on penstock.topics, penstock.queues, penstock.queue_messages to penstock_monitor, penstock_admin;
    grant select on penstock.messages, penstock.dead_letter_queue to penstock_admin;
    grant select on penstock.log, penstock.receipt_log to penstock_consumer, penstock_admin;
    grant usage on schema penstock_stage to penstock_publisher, penstock_admin;
    grant execute on function penstock_data.may_read(bigint) to penstock_consumer, penstock_admin;
    grant delete on penstock.queue_messages to penstock_admin;
    grant execute on function penstock_data.queue_messages(bigint) to penstock_monitor, penstock_admin;
end
$$;
