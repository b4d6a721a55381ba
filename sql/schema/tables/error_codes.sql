-- Every error of our own: code, cause and cure, in one place.  penstock_data.fail() takes its hint from here.
create table if not exists penstock_data.error_codes (
    code   text primary key,
    name   text not null,
    cause  text not null,
    cure   text not null
);
insert into penstock_data.error_codes (code, name, cause, cure) values
    ('PS001', 'unknown_topic', 'No topic has this name.', 'Create it with penstock.create_topic(), or see penstock.list_topics().'),
    ('PS002', 'unknown_queue', 'No queue has this name.', 'Create it with penstock.create_queue(), or see penstock.list_queues().'),
    ('PS003', 'unknown_reader', 'No reader has this name.', 'Create it with penstock.create_reader(), or see penstock.list_readers().'),
    ('PS004', 'invalid_name', 'A name is missing, too long, or holds unprintable characters.', 'Use 1 to 200 printable characters.'),
    ('PS005', 'invalid_argument', 'An argument is missing, of the wrong kind, or out of its range.', 'Use a value within the range that the message names.'),
    ('PS006', 'exists_differently', 'It exists already, with other settings.', 'Use the same settings, another name, or delete the old one first.'),
    ('PS007', 'too_large', 'A payload, key or header is larger than allowed.', 'Store the large part elsewhere and publish a reference, or raise the limit with penstock.configure().'),
    ('PS008', 'queue_expired', 'The exclusive queue was not kept alive.', 'Create it again, and call penstock.extend_queue_keep_alive() in time.'),
    ('PS009', 'not_permitted', 'The topic or queue is reserved for other roles.', 'Ask its owner for penstock.grant_topic() or penstock.grant_queue().'),
    ('PS010', 'rebase_needed', 'The database was restored into another cluster, where the transaction ids of the log mean nothing.', 'Stop all clients and run select penstock.rebase(), which keeps every unread message.'),
    ('PS011', 'standby', 'This server is a standby, where positions cannot be taken.', 'Connect to the primary.'),
    ('PS012', 'other_version', 'The schema in the database is of another version.', 'Run sql/install.sql (or penstock init) of the newer release.'),
    ('PS013', 'log_full', 'The log reached settings.max_log_bytes; claims and acks still work.', 'Consume or delete queues that lag, run penstock.maintain(), or raise max_log_bytes.'),
    ('PS014', 'unknown_dead_letter', 'No dead letter of this queue has this message id.', 'See penstock.list_dlq_messages().'),
    ('PS015', 'other_cluster', 'An offset, or an id of a reader, comes from another cluster, or from before a restore or a fail-over that lost transactions.', 'Go on from penstock.safe_offset(), or with the option onLostOffset = rewind (pipelines: --on-lost-offset rewind): messages may come twice, none is lost. In another cluster start the stream anew, with a new checkpoint and a new group.'),
    ('PS016', 'log_truncated', 'Messages that a stream had still to read were removed from the log.', 'Give the stream a group, which keeps the log for it, or a topic a longer retention; failOnDataLoss = false goes on without them.'),
    ('PS017', 'stage_incomplete', 'Staged rows of a write are missing, because the server crashed or the stage was swept.', 'Run the write again: nothing of it was published.'),
    ('PS018', 'queue_busy', 'Another transaction holds what the queue has, or kept its claim lock for longer than settings.lock_wait, so the call can''t tell whether it holds messages.', 'Try again.')
on conflict (code) do update set name = excluded.name, cause = excluded.cause, cure = excluded.cure;
