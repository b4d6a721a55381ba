-- Housekeeping in steps: what segments remember, and a column for errors in the answer of maintain().
do $$
begin
    if not exists (select from pg_attribute a where a.attrelid = 'penstock_data.segments'::regclass and a.attname = 'leaving') then
        alter table penstock_data.segments add column freed_by xid8, add column leaving text[];
    end if;
    if exists (
        select from pg_proc p
        where p.oid = to_regprocedure('penstock.maintain()') and not 'error' = any (p.proargnames)
    ) then
        drop function penstock.maintain();
    end if;
end
$$;
