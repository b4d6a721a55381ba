-- Give messages to one queue alone, even if other queues or readers read its topic: for replays.  The arrays are
-- parallel.  Returns how many messages were delivered.  With write_id and batch_id (rising) this happens once, however
-- often it is called: a batch that was delivered before delivers nothing, and 0 is returned.  Locks: for a fifo queue
-- its claim lock.
-- Errors: PS002 unknown queue, PS005, PS007 a bad message, PS009 not permitted: nothing is delivered then.
-- Roles: admin
create or replace function penstock.deliver_messages(
    queue_name text, payloads jsonb[], headers jsonb[] default null, keys text[] default null,
    deliver_after timestamptz[] default null, write_id text default null, batch_id bigint default null
) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_queue_id bigint;
    v_count    int := coalesce(cardinality(payloads), 0);
begin
    perform penstock_data.check_queue(queue_name);
    select q.id into v_queue_id from penstock_data.queues q where q.name = deliver_messages.queue_name;
    if (write_id is null) <> (batch_id is null) then
        perform penstock_data.fail('PS005', 'write_id and batch_id go together: give both or neither');
    end if;
    headers := penstock_data.one_for_all('headers', headers, v_count);
    keys := penstock_data.one_for_all('keys', keys, v_count);
    deliver_after := penstock_data.one_for_all('deliver_after', deliver_after, v_count);
    perform penstock_data.check_messages(payloads, deliver_after, headers, keys, null, null, null, null,
        (select s.max_payload_bytes from penstock_data.settings s), penstock_data.clock());
    if write_id is not null then
        perform penstock_data.check_text('write_id', write_id, true);
        perform penstock_data.check_range('batch_id', batch_id, 0, 9223372036854775807);
        perform penstock_data.lock_name('write', write_id);
        if penstock_data.is_written(write_id, batch_id) then
            return 0;
        end if;
        insert into penstock_data.writes (write_id, batch_id, row_count, committed_at, keep)
        values (write_id, batch_id, v_count, penstock_data.clock(), true);
        delete from penstock_data.writes w where w.write_id = deliver_messages.write_id and w.batch_id < deliver_messages.batch_id - 100;
    end if;
    if v_count > 0 then
        perform penstock_data.deliver(v_queue_id, payloads, headers, keys, deliver_after, null);
    end if;
    return v_count;
end
$$;
comment on function penstock.deliver_messages(text, jsonb[], jsonb[], text[], timestamptz[], text, bigint) is 'Give messages to one queue alone, once; returns how many.';
