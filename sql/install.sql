-- Install Penstock, install it again, or upgrade it: psql "$DSN" -f sql/install.sql, from any folder.
-- Tables keep their content; functions and views are replaced whole.
\set ON_ERROR_STOP on
set client_min_messages = warning;
begin;

\ir schema.sql

-- What is stored
\ir tables/migrations.sql
\ir tables/settings.sql
\ir tables/error_codes.sql
\ir tables/topics.sql
\ir tables/queues.sql
\ir tables/claim_locks.sql
\ir tables/named_locks.sql
\ir tables/messages.sql
\ir tables/flags.sql
\ir tables/positions.sql
\ir tables/claims.sql
\ir tables/scheduled.sql
\ir tables/lanes.sql
\ir tables/receipts.sql
\ir tables/dead_letters.sql
\ir tables/renewals.sql
\ir tables/segments.sql
\ir tables/maintenance.sql
\ir tables/dedupe_keys.sql
\ir tables/waiting.sql
\ir tables/readers.sql
\ir tables/streams.sql
\ir tables/writes.sql
\ir tables/imports.sql
\ir tables/grantees.sql
\ir tables/audit.sql
\ir tables/types.sql

-- What earlier installations lack: each runs once
\ir migrations/0001_paused_queues.sql
\ir migrations/0002_grantees.sql
\ir migrations/0003_maintenance_steps.sql
\ir migrations/0004_expiries.sql
\ir migrations/0005_stream_marks.sql
\ir unknown_migrations.sql
\ir tables/indexes.sql
\ir changed_answers.sql

-- How it works inside
\ir internal/errors.sql
\ir internal/clock.sql
\ir internal/lookups.sql
\ir internal/permissions.sql
\ir internal/locks.sql
\ir internal/windows.sql
\ir internal/wakeups.sql
\ir internal/publishing.sql
\ir internal/append_plain.sql
\ir internal/queue_settings.sql
\ir internal/levels.sql
\ir internal/lapses.sql
\ir internal/start_positions.sql
\ir internal/lanes.sql
\ir internal/runs.sql
\ir internal/read_log.sql
\ir internal/put_back.sql
\ir internal/schedule.sql
\ir internal/pick_scheduled.sql
\ir internal/given_back.sql
\ir internal/short_way.sql
\ir internal/claiming.sql
\ir internal/claim_with_care.sql
\ir internal/give_up.sql
\ir internal/contents.sql
\ir internal/states.sql
\ir internal/unread_estimate.sql
\ir internal/history.sql
\ir internal/dead_letters.sql
\ir internal/readers.sql
\ir internal/offsets.sql
\ir internal/log_windows.sql
\ir internal/receipt_windows.sql
\ir internal/streams.sql
\ir internal/origin.sql
\ir internal/stream_marks.sql
\ir internal/stages.sql
\ir internal/writes.sql
\ir internal/segments.sql
\ir internal/housekeeping.sql
\ir internal/steps.sql
\ir internal/rebasing.sql
\ir internal/deliver.sql
\ir internal/finish_message.sql
\ir internal/deadlines.sql
\ir internal/ack_claims.sql
\ir internal/part_claims.sql
\ir internal/make_fair.sql
\ir internal/moving.sql
\ir internal/looking.sql

-- What people look at
\ir views/views.sql

-- What people call
\ir functions/topic/create_topic.sql
\ir functions/topic/delete_topic.sql
\ir functions/topic/list_topics.sql
\ir functions/topic/browse_topic.sql
\ir functions/topic/grant_topic.sql
\ir functions/queue/create_queue.sql
\ir functions/queue/delete_queue.sql
\ir functions/queue/extend_queue_keep_alive.sql
\ir functions/queue/list_queues.sql
\ir functions/queue/purge_queue.sql
\ir functions/queue/pause_queue.sql
\ir functions/queue/cleanup_queue_messages.sql
\ir functions/queue/grant_queue.sql
\ir functions/queue/wait.sql
\ir functions/queue/deliver_messages.sql
\ir functions/message/publish_message.sql
\ir functions/message/publish_messages.sql
\ir functions/message/bulk.sql
\ir functions/message/consume_messages_batch.sql
\ir functions/message/consume_message.sql
\ir functions/message/ack.sql
\ir functions/message/ack_and_consume.sql
\ir functions/message/nack.sql
\ir functions/message/release.sql
\ir functions/message/suspect_messages.sql
\ir functions/message/extend.sql
\ir functions/message/browse_messages.sql
\ir functions/message/find_messages.sql
\ir functions/message/inspect_message.sql
\ir functions/dead_letter/list_dlq_messages.sql
\ir functions/dead_letter/requeue_dlq_messages.sql
\ir functions/dead_letter/purge_dlq.sql
\ir functions/message/move_messages.sql
\ir functions/message/import_progress.sql
\ir functions/reader/create_reader.sql
\ir functions/reader/read_window.sql
\ir functions/reader/grant_reader.sql
\ir functions/stream/readable.sql
\ir functions/stream/log_offset.sql
\ir functions/stream/next_offset.sql
\ir functions/stream/split_log.sql
\ir functions/stream/receipts.sql
\ir functions/stream/check_kept.sql
\ir functions/stream/streams.sql
\ir functions/stream/safe_offset.sql
\ir functions/stream/wait_for_log.sql
\ir functions/write/open_part.sql
\ir functions/write/publish_part.sql
\ir functions/write/commit_write.sql
\ir functions/write/abort_write.sql
\ir functions/stats/get_queue_statistics.sql
\ir functions/stats/queue_contents.sql
\ir functions/stats/message_state.sql
\ir functions/stats/get_next_visible_time.sql
\ir functions/stats/key_counts.sql
\ir functions/stats/queue_overview.sql
\ir functions/stats/activity.sql
\ir functions/stats/queue_history.sql
\ir functions/stats/list_consumers.sql
\ir functions/stats/reader_overview.sql
\ir functions/stats/segment_overview.sql
\ir functions/stats/horizon_holders.sql
\ir functions/stats/list_schedules.sql
\ir functions/admin/version.sql
\ir functions/admin/configure.sql
\ir functions/admin/clock.sql
\ir functions/admin/maintain.sql
\ir functions/admin/rebase.sql
\ir internal/checkup.sql
\ir functions/admin/health.sql
\ir functions/admin/record_action.sql
\ir functions/admin/list_actions.sql

-- The SQS door
\ir sqs/tables/error_shapes.sql
\ir sqs/tables/system.sql
\ir sqs/tables/queues.sql
\ir sqs/tables/receive_attempts.sql
\ir sqs/tables/move_tasks.sql
\ir sqs/tables/types.sql
\ir sqs/internal/errors.sql
\ir sqs/internal/names.sql
\ir sqs/internal/find_queue.sql
\ir sqs/internal/ids.sql
\ir sqs/internal/message_attributes.sql
\ir sqs/internal/queue_attributes.sql
\ir sqs/internal/policies.sql
\ir sqs/internal/batches.sql
\ir sqs/internal/sending.sql
\ir sqs/internal/receiving.sql
\ir sqs/internal/sharing.sql
\ir sqs/internal/redriving.sql
\ir sqs/internal/repeated_receives.sql
\ir sqs/internal/deleting.sql
\ir sqs/internal/changing_visibility.sql
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
\ir replica_identities.sql

-- What an earlier version had and this one has not
\ir sweep.sql

-- Who may
\ir roles.sql
\ir grants.sql

commit;
reset client_min_messages;
