-- Queues that can be paused.
alter table penstock_data.queues add column if not exists paused_at timestamptz;
