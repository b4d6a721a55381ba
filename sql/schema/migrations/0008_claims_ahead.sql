-- Positions that know of messages claimed ahead of them.
do $$
begin
    if not penstock_data.record_migration(8, 'claims_ahead') then
        return;
    end if;
    if not penstock_data.has_column('penstock_data.positions', 'ahead') then
        alter table penstock_data.positions add column ahead boolean, add column read_size int;
    end if;
end
$$;
