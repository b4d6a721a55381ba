-- The table of a stage.
create or replace function penstock_data.stage_table(p_id bigint) returns text
language sql immutable as $$
    select format('penstock_stage.%I', 'w_' || p_id)
$$;

-- The stage of a write, made when there is none.  Unlogged: after a crash the write is done again.  Never vacuumed, so
-- that space is not used again and rows lie in the order in which they were copied; emptied by TRUNCATE instead.
create or replace function penstock_data.stage_of(p_write_id text, p_batch_id bigint) returns penstock_data.stages
language plpgsql as $$
declare
    v_stage penstock_data.stages;
begin
    select * into v_stage from penstock_data.stages s where s.write_id = p_write_id and s.batch_id = p_batch_id;
    if v_stage.id is null then
        perform penstock_data.lock_name('stage', p_write_id);
        insert into penstock_data.stages as s (write_id, batch_id, writer, used_at)
        values (p_write_id, p_batch_id, penstock_data.caller(), penstock_data.clock())
        on conflict (write_id, batch_id) do nothing returning s.* into v_stage;
        if v_stage.id is null then
            select * into v_stage from penstock_data.stages s where s.write_id = p_write_id and s.batch_id = p_batch_id;
        else
            execute format('create unlogged table %s (part bigint not null, topic text, payload jsonb, headers jsonb, key text, priority int, '
                'deliver_after timestamptz, expires_at timestamptz, correlation_id text, tenant_id text) with (autovacuum_enabled = off)',
                penstock_data.stage_table(v_stage.id));
            perform penstock_data.close_table(penstock_data.stage_table(v_stage.id)::regclass);
            execute format('grant insert on %s to %I', penstock_data.stage_table(v_stage.id), v_stage.writer);
        end if;
    end if;
    if v_stage.writer <> penstock_data.caller() and not penstock_data.is_permitted(array[v_stage.writer])
       and not exists (
           select from pg_roles r where r.rolname = v_stage.writer and pg_has_role(penstock_data.caller(), r.oid, 'member')) then
        perform penstock_data.fail('PS009', format('write %L belongs to role %I', p_write_id, v_stage.writer));
    end if;
    return v_stage;
end
$$;

-- Lock a table in access exclusive mode, without waiting: a session that waits for such a lock blocks all sessions that
-- use the table after it.  False: another session uses the table.
create or replace function penstock_data.lock_soon(p_table text) returns boolean
language plpgsql as $$
begin
    execute format('lock table %s in access exclusive mode nowait', p_table);
    return true;
exception when lock_not_available then
    return false;
end
$$;

-- Drop a stage.  Returns false if a COPY holds the table; maintain() retries later.
create or replace function penstock_data.drop_stage(p_stage_id bigint) returns boolean
language plpgsql as $$
declare
    v_table text := penstock_data.stage_table(p_stage_id);
begin
    if to_regclass(v_table) is not null and not penstock_data.lock_soon(v_table) then
        return false;
    end if;
    delete from penstock_data.stages s where s.id = p_stage_id;
    execute format('drop table if exists %s', v_table);
    return true;
end
$$;

-- Forget what is staged, the leavings of failed tasks included.  A stage that has grown is truncated, because dead rows
-- would be in the way of every later batch.
create or replace function penstock_data.clear_stage(p_stage_id bigint) returns void
language plpgsql as $$
declare
    c_large constant bigint := 1048576;
    v_table text := penstock_data.stage_table(p_stage_id);
begin
    -- Not while a COPY holds the table: the next batch tries again.
    if pg_relation_size(v_table) > c_large and penstock_data.lock_soon(v_table) then
        execute format('truncate %s', v_table);
        return;
    end if;
    execute format('delete from %s', v_table);
end
$$;

-- Stages not used for a day, and notes of writes that cannot be asked for any more.  Returns how many stages.
create or replace function penstock_data.sweep_stages(p_now timestamptz) returns bigint
language plpgsql as $$
declare
    c_most  constant int := 100;
    v_stage penstock_data.stages;
    v_count bigint := 0;
begin
    delete from penstock_data.writes w where w.ctid = any (array(
        select o.ctid from penstock_data.writes o
        where not o.keep and o.committed_at < p_now - interval '1 day' limit 10000 for update skip locked));
    for v_stage in
        select * from penstock_data.stages s where s.used_at < p_now - interval '1 day' order by s.used_at limit c_most for update skip locked
    loop
        v_count := v_count + penstock_data.drop_stage(v_stage.id)::int;
    end loop;
    return v_count;
end
$$;

-- A batch is over: clear its rows, or drop the stage when no other batch will come.
create or replace function penstock_data.end_batch(p_stage_id bigint, p_ends boolean) returns void
language plpgsql as $$
begin
    if p_ends then
        perform penstock_data.drop_stage(p_stage_id);
    else
        update penstock_data.stages s set used_at = penstock_data.clock()
        where s.id = p_stage_id and s.used_at < penstock_data.clock() - interval '1 hour';
        perform penstock_data.clear_stage(p_stage_id);
    end if;
end
$$;
