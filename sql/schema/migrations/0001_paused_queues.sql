-- Queues that can be paused.
do $$
begin
    if not penstock_data.record_migration(1, 'paused_queues') then
        return;
    end if;
    if not penstock_data.has_column('penstock_data.queues', 'paused_at') then
        alter table penstock_data.queues add column paused_at timestamptz;
    end if;
end
$$;
