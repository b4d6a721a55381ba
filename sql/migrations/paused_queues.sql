-- Queues that can be paused: a column, and one more in the answer of list_queues.
alter table penstock_data.queues add column if not exists paused_at timestamptz;

do $$
begin
    if exists (
        select from pg_proc p
        where p.oid = to_regprocedure('penstock.list_queues()') and not 'paused_at' = any (p.proargnames)
    ) then
        drop function penstock.list_queues();
    end if;
end
$$;
