-- Messages with a place of their own know when they expire.
do $$
begin
    if not penstock_data.record_migration(4, 'expiries') then
        return;
    end if;
    if not penstock_data.has_column('penstock_data.scheduled', 'expires_at') then
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
