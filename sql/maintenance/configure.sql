-- Change a setting of this installation; null puts it back to its default.  See the table penstock_data.settings.
-- Roles: admin
create or replace function penstock.configure(setting text, value text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if setting is null or setting not in ('lock_wait', 'segment_bytes', 'segment_age', 'receipt_retention', 'dedupe_window',
                                          'max_payload_bytes', 'max_log_bytes') then
        perform penstock_data.fail('PS005', format('there is no setting %s; there are lock_wait, segment_bytes, segment_age, '
            'receipt_retention, dedupe_window, max_payload_bytes and max_log_bytes', quote_nullable(setting)));
    end if;
    if value is null then
        execute format('update penstock_data.settings set %I = default', setting);
        return;
    end if;
    if setting in ('lock_wait', 'segment_age', 'receipt_retention', 'dedupe_window') then
        perform penstock_data.check_duration(setting, value::interval,
            case setting when 'lock_wait' then interval '1 hour' else '100 years' end);
    end if;
    execute format('update penstock_data.settings set %I = %L', setting, value);
exception when invalid_text_representation or invalid_datetime_format or interval_field_overflow or datetime_field_overflow
        or check_violation or numeric_value_out_of_range then
    perform penstock_data.fail('PS005', format('%L is no value for %s', value, setting));
end
$$;
comment on function penstock.configure(text, text) is 'Change a setting of this installation; null restores the default.';

-- The settings of this installation.
-- Roles: monitor, admin
create or replace function penstock.configuration() returns table (setting text, value text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
    select e.key, e.value
    from penstock_data.settings c cross join lateral jsonb_each_text(to_jsonb(c)) e
    where e.key not in ('single', 'incarnation_xid')
    order by e.key
$$;
comment on function penstock.configuration() is 'The settings of this installation.';

-- For tests: move the engine's clock.  Durations then pass without waiting.
-- Roles: admin
create or replace function penstock.advance_clock(by interval) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
    update penstock_data.settings set clock_shift = clock_shift + $1
$$;
comment on function penstock.advance_clock(interval) is 'For tests: move the engine''s clock.';
