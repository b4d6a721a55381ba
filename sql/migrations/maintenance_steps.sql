-- Housekeeping in steps: what segments remember.
do $$
begin
    if not exists (select from pg_attribute a where a.attrelid = 'penstock_data.segments'::regclass and a.attname = 'leaving') then
        alter table penstock_data.segments add column freed_by xid8, add column leaving text[];
    end if;
end
$$;
