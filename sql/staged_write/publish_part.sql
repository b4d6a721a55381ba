-- Publish one part at once, in the transaction that copied it: at least once, because a task that is run again
-- publishes again.  Nothing is noted in the ledger.  row_count is what was copied.  alone: the stage of its own goes
-- with it, so a task that does all of it in one transaction leaves nothing behind, whatever happens.
-- Errors: as commit_write.
-- Roles: publisher, admin
create or replace function penstock.publish_part(
    write_id text, batch_id bigint, part bigint, row_count bigint, topic_name text default null, alone boolean default false
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_stage penstock_data.stages := penstock_data.stage_of(write_id, case when alone then batch_id else -1 end);
begin
    perform penstock_data.publish_parts(v_stage.id, array[part], row_count, topic_name);
    if alone then
        perform penstock_data.drop_stage(v_stage.id);
    end if;
end
$$;
comment on function penstock.publish_part(text, bigint, bigint, bigint, text, boolean) is 'Publish one part of a stage at once: at least once.';
