-- Refuse when messages after an offset have been removed from the log: what was read of them may be incomplete.
-- Errors: PS016 log truncated.
-- Roles: consumer, admin
create or replace function penstock.check_kept(topic_ids bigint[], start_offset jsonb) returns void
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select penstock_data.check_kept(topic_ids, start_offset)
$$;
comment on function penstock.check_kept(bigint[], jsonb) is 'Refuse when messages after an offset have been removed from the log.';
