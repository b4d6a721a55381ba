-- Housekeeping in steps: what segments remember.
do $$
begin
    if not penstock_data.record_migration(3, 'maintenance_steps') then
        return;
    end if;
    if not penstock_data.has_column('penstock_data.segments', 'leaving') then
        alter table penstock_data.segments add column freed_by xid8, add column leaving text[];
    end if;
end
$$;
