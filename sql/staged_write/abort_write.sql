-- Give a batch up: drop what was staged for it.  Returns whether it had been published all the same, by a commit whose
-- answer was lost.  alone as in open_part.
-- Roles: publisher, admin
create or replace function penstock.abort_write(write_id text, batch_id bigint, alone boolean default false) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_stage penstock_data.stages;
    v_batch bigint := case when alone then batch_id else -1 end;
begin
    perform penstock_data.lock_name('write', write_id);
    if exists (select from penstock_data.stages s where s.write_id = abort_write.write_id and s.batch_id = v_batch) then
        v_stage := penstock_data.stage_of(write_id, v_batch);
        perform penstock_data.end_batch(v_stage.id, alone);
    end if;
    return penstock_data.is_written(write_id, batch_id);
end
$$;
comment on function penstock.abort_write(text, bigint, boolean) is 'Give a batch of a staged write up.';

-- Was this batch of a write published?
-- Roles: publisher, admin
create or replace function penstock.is_written(write_id text, batch_id bigint) returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select penstock_data.is_written(write_id, batch_id)
$$;
comment on function penstock.is_written(text, bigint) is 'Was this batch of a staged write published?';

-- May the caller publish to a topic?  For a look before any work is done: an error says why not.
-- Errors: PS001 unknown topic, PS009 not permitted, PS010 rebase needed, PS013 log full.
-- Roles: publisher, admin
create or replace function penstock.check_publishing(topic_name text) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $$
    select penstock_data.check_topic(topic_name)
$$;
comment on function penstock.check_publishing(text) is 'Refuse when the caller may not publish to a topic.';
