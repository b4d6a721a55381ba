-- Publish the parts of a batch and note it, all in one transaction: exactly once, however often it is called.  Returns
-- false when the batch was published before.  Rows of other parts, left by tasks that failed, are dropped.
-- topic_name: the topic of rows that name none.  alone as in open_part.  keep: remember the batch for good, because it
-- may be asked for again at any time.
-- Errors: PS017 staged rows are missing; PS001 unknown topic, PS005, PS007 a bad row, PS009 not permitted, PS013 log
-- full: nothing is published then.
-- Roles: publisher, admin
create or replace function penstock.commit_write(
    write_id text, batch_id bigint, parts bigint[], row_counts bigint[], topic_name text default null,
    alone boolean default false, keep boolean default true
) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_stage penstock_data.stages;
    v_count bigint := (select coalesce(sum(c), 0) from unnest(row_counts) as c);
begin
    perform penstock_data.check_text('write_id', write_id, true);
    perform penstock_data.check_range('batch_id', batch_id, 0, 9223372036854775807);
    perform penstock_data.lock_name('write', write_id);
    v_stage := penstock_data.stage_of(write_id, case when alone then batch_id else -1 end);
    if penstock_data.is_written(write_id, batch_id) then
        perform penstock_data.end_batch(v_stage.id, alone);
        return false;
    end if;
    insert into penstock_data.writes (write_id, batch_id, row_count, committed_at, keep)
    values (write_id, batch_id, v_count, penstock_data.clock(), keep);
    delete from penstock_data.writes w where w.write_id = commit_write.write_id and w.batch_id < commit_write.batch_id - 100;
    perform penstock_data.publish_parts(v_stage.id, parts, v_count, topic_name);
    perform penstock_data.end_batch(v_stage.id, alone);
    return true;
end
$$;
comment on function penstock.commit_write(text, bigint, bigint[], bigint[], text, boolean, boolean) is 'Publish the parts of a batch exactly once.';
