-- Positions that know of slices.
do $$
begin
    if not penstock_data.record_migration(6, 'slices') then
        return;
    end if;
    if not penstock_data.has_column('penstock_data.positions', 'slices_from') then
        -- Migration 7 changes the settings too.  Calls read them before they read a position.
        lock table penstock_data.settings in access exclusive mode;
        alter table penstock_data.positions add column slices_from bigint, add column slice_size int, add column sliced_at timestamptz;
    end if;
end
$$;
