-- The next messages of a reader, at most max_rows, in the order of ids.  Reading again without a commit yields the same
-- messages, so a crash between work and commit repeats them and loses none.
-- Locks: the reader, when there is something.  Errors: PS003 unknown reader, PS005 max_rows, PS010 rebase needed, PS011
-- standby.
-- Roles: consumer, admin
create or replace function penstock.read_window(reader_name text, max_rows int default 1000)
returns table (
    message_id bigint, payload jsonb, headers jsonb, key text, priority int, published_at timestamptz,
    deliver_after timestamptz, expires_at timestamptz, correlation_id text, tenant_id text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_reader   penstock_data.readers := penstock_data.reader_named(reader_name);
    v_position penstock_data.reader_positions;
    v_before   penstock_data.reader_positions;
begin
    perform penstock_data.check_range('max_rows', max_rows, 1, 1000000);
    if pg_is_in_recovery() then
        perform penstock_data.fail('PS011', 'windows cannot be opened on a standby');
    end if;
    -- An idle reader writes nothing: its lock is taken when there is something to read.
    select * into v_position from penstock_data.reader_position(v_reader.id);
    if not exists (select from penstock_data.window_rows(v_reader.topic_id, penstock_data.opened_window(v_position), 1)) then
        return;
    end if;
    perform penstock_data.lock_reader(v_reader.id);
    select * into v_position from penstock_data.reader_position(v_reader.id);
    v_before := v_position;
    v_position := penstock_data.opened_window(v_position);
    v_position.given_id := (select max(m.id) from penstock_data.window_rows(v_reader.topic_id, v_position, max_rows) m);
    if v_position.given_id is null then
        return;
    end if;
    if v_before.last_id is null then
        select b.p_snapshot, b.p_id into v_position.window_to, v_position.next_from_id
        from penstock_data.bound_window(v_position.window_to, null, v_position.from_id) b;
        perform penstock_data.append_reader_position(v_position);
    elsif v_position.given_id > v_before.given_id then
        perform penstock_data.append_reader_position(v_position);
    end if;
    return query
    select m.id, m.payload, m.headers, m.key, m.priority, m.published_at, m.deliver_after, m.expires_at, m.correlation_id, m.tenant_id
    from penstock_data.window_rows(v_reader.topic_id, v_position, max_rows) m;
end
$$;
comment on function penstock.read_window(text, int) is 'The next messages of a reader; the same again until they are committed.';

-- Say that a reader has dealt with its messages up to through_id.  False when they were committed before: nothing was
-- changed.  Refused when the reader was not given that id: then a fail-over or a restore has lost the window it was of.
-- Locks: the reader.  Errors: PS003 unknown reader, PS010 rebase needed, PS015 an id that this database did not hand
-- out.
-- Roles: consumer, admin
create or replace function penstock.commit_window(reader_name text, through_id bigint) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_reader   penstock_data.readers := penstock_data.reader_named(reader_name);
    v_position penstock_data.reader_positions;
begin
    perform penstock_data.lock_reader(v_reader.id);
    select * into v_position from penstock_data.reader_position(v_reader.id);
    if through_id > least(v_position.given_id, v_position.to_id) then
        perform penstock_data.fail('PS015', format('reader %L was not given message %s: read its window again', reader_name, through_id));
    end if;
    if v_position.last_id is null or through_id is null or through_id <= v_position.last_id then
        return false;
    end if;
    v_position.last_id := through_id;
    v_position.committed_at := penstock_data.clock();
    if not exists (select from penstock_data.window_rows(v_reader.topic_id, v_position, 1)) then
        v_position.last_id := null;
        v_position.window_from := v_position.window_to;
    end if;
    perform penstock_data.append_reader_position(v_position);
    return true;
end
$$;
comment on function penstock.commit_window(text, bigint) is 'Commit a reader''s messages up to an id.';
