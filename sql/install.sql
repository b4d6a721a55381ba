-- Install Penstock, install it again, or upgrade it: psql "$DSN" -f sql/install.sql, from any folder.
-- Tables keep their content; functions and views are replaced whole.
\set ON_ERROR_STOP on
set client_min_messages = warning;
begin;

\ir schema/schema.sql

-- What is stored
\ir schema/tables/migrations.sql
\ir schema/tables/settings.sql
\ir schema/tables/error_codes.sql
\ir schema/tables/topics.sql
\ir schema/tables/queues.sql
\ir schema/tables/claim_locks.sql
\ir schema/tables/named_locks.sql
\ir schema/tables/messages.sql
\ir schema/tables/flags.sql
\ir schema/tables/positions.sql
\ir schema/tables/claims.sql
\ir schema/tables/claimed_ahead.sql
\ir schema/tables/message_locks.sql
\ir schema/tables/scheduled.sql
\ir schema/tables/lanes.sql
\ir schema/tables/receipts.sql
\ir schema/tables/dead_letters.sql
\ir schema/tables/renewals.sql
\ir schema/tables/segments.sql
\ir schema/tables/maintenance.sql
\ir schema/tables/dedupe_keys.sql
\ir schema/tables/waiting.sql
\ir schema/tables/readers.sql
\ir schema/tables/streams.sql
\ir schema/tables/writes.sql
\ir schema/tables/imports.sql
\ir schema/tables/grantees.sql
\ir schema/tables/audit.sql
\ir schema/tables/types.sql

-- What earlier installations lack: each runs once
\ir schema/migrations/0001_paused_queues.sql
\ir schema/migrations/0002_grantees.sql
\ir schema/migrations/0003_maintenance_steps.sql
\ir schema/migrations/0004_expiries.sql
\ir schema/migrations/0005_stream_marks.sql
\ir schema/migrations/0006_slices.sql
\ir schema/migrations/0007_segments_in_use.sql
\ir schema/migrations/0008_claims_ahead.sql
\ir schema/unknown_migrations.sql
\ir schema/tables/indexes.sql
\ir schema/changed_answers.sql

-- How it works inside
\ir lib/errors.sql
\ir lib/clock.sql
\ir lib/lookups.sql
\ir lib/permissions.sql
\ir lib/locks.sql
\ir log/windows.sql
\ir notify/wakeups.sql
\ir message/message_checks.sql
\ir message/append_plain.sql
\ir queue/queue_settings.sql
\ir ordering/levels.sql
\ir maintenance/lapses.sql
\ir queue/start_positions.sql
\ir ordering/lanes.sql
\ir ordering/runs.sql
\ir log/read_log.sql
\ir claim/put_back.sql
\ir ordering/schedule.sql
\ir ordering/pick_scheduled.sql
\ir claim/given_back.sql
\ir claim/fast_path.sql
\ir claim/held_claims.sql
\ir claim/pick_log.sql
\ir claim/claim_with_care.sql
\ir claim/slices.sql
\ir claim/ahead.sql
\ir claim/give_up.sql
\ir queue/contents.sql
\ir message/states.sql
\ir stats/unread_estimate.sql
\ir message/history.sql
\ir dead_letter/dead_letters.sql
\ir log/readers.sql
\ir log/offsets.sql
\ir log/log_windows.sql
\ir log/receipt_windows.sql
\ir log/stream_readers.sql
\ir maintenance/origin.sql
\ir log/stream_marks.sql
\ir staged_write/stages.sql
\ir staged_write/writes.sql
\ir log/segments.sql
\ir maintenance/cleanup.sql
\ir maintenance/steps.sql
\ir maintenance/rebase_steps.sql
\ir queue/deliver.sql
\ir claim/finish_message.sql
\ir claim/deadlines.sql
\ir claim/ack_claims.sql
\ir claim/part_claims.sql
\ir ordering/make_fair.sql
\ir message/moves.sql
\ir queue/unread.sql

-- What people look at
\ir stats/views.sql

-- What people call
\ir topic/create_topic.sql
\ir topic/delete_topic.sql
\ir topic/list_topics.sql
\ir topic/browse_topic.sql
\ir topic/grant_topic.sql
\ir queue/create_queue.sql
\ir queue/delete_queue.sql
\ir queue/extend_queue_keep_alive.sql
\ir queue/list_queues.sql
\ir queue/purge_queue.sql
\ir queue/pause_queue.sql
\ir queue/cleanup_queue_messages.sql
\ir queue/grant_queue.sql
\ir notify/wait.sql
\ir queue/deliver_messages.sql
\ir message/publish_message.sql
\ir message/publish_messages.sql
\ir message/bulk.sql
\ir claim/consume_messages_batch.sql
\ir claim/consume_message.sql
\ir claim/ack.sql
\ir claim/ack_and_consume.sql
\ir claim/nack.sql
\ir claim/release.sql
\ir claim/suspect_messages.sql
\ir claim/defer_suspects.sql
\ir claim/begin_attempt.sql
\ir claim/extend.sql
\ir message/browse_messages.sql
\ir message/find_messages.sql
\ir message/inspect_message.sql
\ir dead_letter/list_dlq_messages.sql
\ir dead_letter/requeue_dlq_messages.sql
\ir dead_letter/purge_dlq.sql
\ir message/move_messages.sql
\ir message/import_progress.sql
\ir log/create_reader.sql
\ir log/read_window.sql
\ir log/grant_reader.sql
\ir log/readable.sql
\ir log/log_offset.sql
\ir log/next_offset.sql
\ir log/split_log.sql
\ir log/receipts.sql
\ir log/check_kept.sql
\ir log/streams.sql
\ir log/safe_offset.sql
\ir notify/wait_for_log.sql
\ir staged_write/open_part.sql
\ir staged_write/publish_part.sql
\ir staged_write/commit_write.sql
\ir staged_write/abort_write.sql
\ir stats/get_queue_statistics.sql
\ir stats/queue_contents.sql
\ir stats/message_state.sql
\ir stats/get_next_visible_time.sql
\ir stats/key_counts.sql
\ir stats/queue_overview.sql
\ir stats/activity.sql
\ir stats/queue_history.sql
\ir stats/list_consumers.sql
\ir stats/reader_overview.sql
\ir stats/segment_overview.sql
\ir stats/horizon_holders.sql
\ir stats/list_schedules.sql
\ir maintenance/version.sql
\ir maintenance/configure.sql
\ir maintenance/clock.sql
\ir maintenance/maintain.sql
\ir maintenance/rebase.sql
\ir maintenance/checkup.sql
\ir maintenance/health.sql
\ir maintenance/record_action.sql
\ir maintenance/list_actions.sql

-- The SQS door
\ir sqs/tables/error_shapes.sql
\ir sqs/tables/system.sql
\ir sqs/tables/queues.sql
\ir sqs/tables/receive_attempts.sql
\ir sqs/tables/move_tasks.sql
\ir sqs/tables/types.sql
\ir sqs/errors.sql
\ir sqs/names.sql
\ir sqs/queues.sql
\ir sqs/ids.sql
\ir sqs/message_attributes.sql
\ir sqs/queue_attributes.sql
\ir sqs/policies.sql
\ir sqs/batches.sql
\ir sqs/send.sql
\ir sqs/receive.sql
\ir sqs/receive_many.sql
\ir sqs/redrive.sql
\ir sqs/repeated_receives.sql
\ir sqs/delete.sql
\ir sqs/visibility.sql
\ir sqs/actions/create_queue.sql
\ir sqs/actions/delete_queue.sql
\ir sqs/actions/get_queue_url.sql
\ir sqs/actions/list_queues.sql
\ir sqs/actions/get_queue_attributes.sql
\ir sqs/actions/set_queue_attributes.sql
\ir sqs/actions/purge_queue.sql
\ir sqs/actions/tag_queue.sql
\ir sqs/actions/send_message.sql
\ir sqs/actions/send_message_batch.sql
\ir sqs/actions/receive_message.sql
\ir sqs/actions/delete_message.sql
\ir sqs/actions/change_message_visibility.sql
\ir sqs/actions/add_permission.sql
\ir sqs/actions/remove_permission.sql
\ir sqs/actions/list_dead_letter_source_queues.sql
\ir sqs/actions/start_message_move_task.sql
\ir sqs/actions/list_message_move_tasks.sql
\ir sqs/actions/cancel_message_move_task.sql
\ir sqs/invoke.sql
\ir sqs/invoke_many.sql
\ir sqs/invoke_on.sql
\ir sqs/run_move_tasks.sql
\ir sqs/settings.sql
\ir sqs/access_keys.sql

-- What all tables have, those of SQS included
\ir schema/replica_identities.sql

-- What an earlier version had and this one has not
\ir sweep.sql

-- Who may
\ir schema/roles.sql
\ir schema/grants.sql

commit;
reset client_min_messages;
