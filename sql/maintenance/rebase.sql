-- After a dump was restored into another cluster, or logical replication carried the log there, the transaction ids of
-- the log mean nothing: stamp the log anew, and bring along what neither carries.  Every queue keeps exactly its unread
-- messages; a reader may see again what it read above its first unread message.  Returns how many messages were
-- stamped; 0, with a notice, where the log is at home.
-- Errors: PS005 while a subscription still writes to the log.  Locks: everything; stop all clients first.
-- Roles: admin
create or replace function penstock.rebase() returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_me     xid8 := pg_current_xact_id();
    v_before pg_snapshot := format('%s:%s:', v_me, v_me);
    v_after  pg_snapshot := format('%s:%s:', v_me::text::numeric + 1, v_me::text::numeric + 1);
    v_queue  penstock_data.queues;
    v_reader penstock_data.readers;
    v_count  bigint;
begin
    lock table penstock_data.messages, penstock_data.receipts, penstock_data.positions, penstock_data.reader_positions,
        penstock_data.claims, penstock_data.scheduled in access exclusive mode;
    if penstock_data.foreign_log() is null then
        raise notice 'this database is at home in this cluster: nothing to do';
        return 0;
    end if;
    perform penstock_data.check_subscriptions();
    -- Before the sequences: slices are named by numbers that lie far above the ids of messages.
    perform penstock_data.end_slices(q.id, penstock_data.clock()) from penstock_data.queues q;
    perform penstock_data.raise_sequences();
    perform penstock_data.match_segments();
    perform penstock_data.match_stages();
    for v_queue in select * from penstock_data.queues q order by q.id loop
        perform penstock_data.rebase_queue(v_queue, v_before, v_after);
    end loop;
    for v_reader in select * from penstock_data.readers r order by r.id loop
        perform penstock_data.rebase_reader(v_reader, v_before, v_after);
    end loop;
    update penstock_data.messages m set xid = v_me;
    get diagnostics v_count = row_count;
    update penstock_data.receipts r set xid = v_me;
    update penstock_data.scheduled s set xid = null where s.xid is not null;
    delete from penstock_data.flags;
    update penstock_data.message_locks l set noted_by = null where l.noted_by is not null;
    delete from penstock_data.emptied;
    -- Streams can't go on; until they are deleted, history is kept for them as the log is kept by their readers.
    update penstock_data.stream_positions p set current_offset = jsonb_set(p.current_offset, '{snap}', to_jsonb(v_before::text));
    update penstock_data.streams s set start_offset = jsonb_set(s.start_offset, '{snap}', to_jsonb(v_before::text));
    delete from penstock_data.incarnation;
    insert into penstock_data.incarnation (cluster) select system_identifier from pg_control_system();
    update penstock_data.settings set incarnation_xid = (select i.xmin from penstock_data.incarnation i);
    perform penstock_data.mark_origin();
    perform penstock_data.forget_marks();
    perform penstock_data.find_grantees();
    return v_count;
end
$$;
comment on function penstock.rebase() is 'Stamp the log anew after a restore into another cluster; keeps every unread message.';
