-- Begin a part of a staged write, in a task of its own: the table to copy its rows into and the number that each row
-- bears in column part.  is_written: this batch was published before, so nothing need be staged.  alone: the batch has
-- a stage of its own, because others of the same write may be at work; else batches come one after the other and share
-- one.
--     select stage, part from penstock.open_part('nightly load', 1);
--     copy <stage> (part, payload, key) from stdin;
--     select penstock.commit_write('nightly load', 1, array[<part>], array[<rows>], 'orders');
-- Errors: PS005 write_id or batch_id, PS009 a write of another role.
-- Roles: publisher, admin
create or replace function penstock.open_part(write_id text, batch_id bigint, alone boolean default false)
returns table (stage text, part bigint, is_written boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_stage penstock_data.stages;
begin
    perform penstock_data.check_text('write_id', write_id, true);
    perform penstock_data.check_range('batch_id', batch_id, 0, 9223372036854775807);
    if penstock_data.is_written(write_id, batch_id) then
        return query select null::text, null::bigint, true;
        return;
    end if;
    v_stage := penstock_data.stage_of(write_id, case when alone then batch_id else -1 end);
    return query select penstock_data.stage_table(v_stage.id), nextval('penstock_data.part_id'), false;
end
$$;
comment on function penstock.open_part(text, bigint, boolean) is 'Begin a part of a staged write; returns the table to copy its rows into.';
