-- Change a setting of the SQS door; null puts it back to its default.
--     recreate_wait, purge_wait: how long SQS has people wait before they make a deleted queue again, or purge a queue
--     again ('0' switches the rule off); max_in_flight: how many messages of a queue can be in flight.
-- Roles: admin
create or replace function pgqs.configure(setting text, value text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if setting is null or setting not in ('recreate_wait', 'purge_wait', 'max_in_flight') then
        perform penstock_data.fail('PS005', format('there is no setting %s; there are recreate_wait, purge_wait and max_in_flight', quote_nullable(setting)));
    elsif value is null then
        execute format('update pgqs_data.system set %I = default', setting);
    else
        execute format('update pgqs_data.system set %I = %L', setting, value);
    end if;
exception when invalid_text_representation or invalid_datetime_format or interval_field_overflow or datetime_field_overflow
        or check_violation or numeric_value_out_of_range then
    perform penstock_data.fail('PS005', format('%L is no value for %s', value, setting));
end
$$;
comment on function pgqs.configure(text, text) is 'Change a setting of the SQS door; null restores the default.';
