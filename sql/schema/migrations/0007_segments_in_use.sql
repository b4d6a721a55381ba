-- Settings and segments that know which segments may hold messages.
do $$
begin
    if not penstock_data.record_migration(7, 'segments_in_use') then
        return;
    end if;
    if not penstock_data.has_column('penstock_data.settings', 'first_segment') then
        alter table penstock_data.settings
            add column first_segment int not null default 1, add column last_segment int not null default 2147483647;
    end if;
    if not penstock_data.has_column('penstock_data.segments', 'idle') then
        alter table penstock_data.segments add column idle boolean not null default false;
    end if;
    -- The deadline of a claim is computed in the statement that reads the settings.
    if penstock_data.has_column('penstock_data.locked_queue', 'deadline') then
        alter type penstock_data.locked_queue drop attribute deadline;
        alter type penstock_data.locked_queue rename attribute now to clock;
    end if;
end
$$;
