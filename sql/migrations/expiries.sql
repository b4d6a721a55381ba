-- Messages with a place of their own know when they expire.
do $$
begin
    if not exists (
        select from pg_attribute a
        where a.attrelid = 'penstock_data.scheduled'::regclass and a.attname = 'expires_at' and not a.attisdropped
    ) then
        alter table penstock_data.scheduled add column expires_at timestamptz;
        alter table penstock_data.backlog add column expires_at timestamptz;
        alter type penstock_data.entry add attribute expires_at timestamptz;
        update penstock_data.scheduled s set expires_at = m.expires_at
        from penstock_data.queues q, penstock_data.messages m
        where q.id = s.queue_id and m.topic_id = q.topic_id and m.id = s.message_id and m.expires_at is not null;
        update penstock_data.backlog b set expires_at = m.expires_at
        from penstock_data.queues q, penstock_data.messages m
        where q.id = b.queue_id and m.topic_id = q.topic_id and m.id = b.message_id and m.expires_at is not null;
    end if;
end
$$;
-- Here and not beside the tables: an earlier installation gets the column above.
create index if not exists scheduled_expiring on penstock_data.scheduled (queue_id, expires_at) where expires_at is not null;
create index if not exists backlog_expiring on penstock_data.backlog (queue_id, expires_at) where expires_at is not null;
