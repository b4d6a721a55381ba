"""Every name that the users of the five seeds know: functions, options, tables, columns, types."""

from __future__ import annotations

NAMES = {
    "PostgreMQ": """
        create_topic delete_topic list_topics create_queue delete_queue extend_queue_keep_alive
        list_queues get_queue_statistics pending_count publish_message consume_message
        consume_messages_batch ack_message nack_message release_message extend_message_vt
        batch_extend_message_vt list_dlq_messages requeue_dlq_messages purge_dlq
        cleanup_queue_messages cleanup_topic_messages cleanup_expired_exclusive_queues
        purge_all_messages distribute_message distribute_message_trigger
        topic_name queue_name exclusive max_delivery_attempts keep_alive_seconds payload
        deliver_after consumer_token token vt_seconds batch_size message_id message_ids
        delay_seconds extension_seconds topics queues messages queue_messages dead_letter_queue
        id name created_at topic_id keep_alive_until publish_at queue_id status vt
        delivery_attempts completed_at pending processing completed last_error moved_at
    """,
    "PeeGeeQ native": """
        QueueFactory PgNativeQueueFactory DatabaseService PgClientFactory createProducer
        MessageProducer PgNativeQueueProducer createConsumer MessageConsumer
        PgNativeQueueConsumer createConsumerGroup ConsumerGroup PgNativeConsumerGroup
        PgNativeConsumerGroupMember addMember getMember groupName setFilter PgNativeQueue
        ReactiveQueue receive PgNativeMessage getPayload getPriority ReadStream
        PgNotificationStream EmptyReadStream handler exceptionHandler endHandler
        VertxPoolAdapter getPoolOrThrow connectDedicated notificationHandler
        PgNativeFactoryRegistrar getImplementationType isHealthy send headers correlationId
        messageGroup visible_at payloadType consume acknowledge reject requeue stop ConsumerMode
        LISTEN_NOTIFY_ONLY POLLING_ONLY HYBRID ConsumerConfig builder pollingInterval
        enableNotifications batchSize consumerThreads pg_notify pg_try_advisory_xact_lock
        max_retries maxRetries retry_count withRetry isTransientError RejectedExecutionException
        queue_messages dead_letter_queue original_message_id topic payload error_message
        created_at closed pendingLockOperations inFlightOperations processingInFlight
        peegeeq.consumer.mode peegeeq.consumer.polling.interval peegeeq.consumer.batch.size
        peegeeq.consumer.threads peegeeq.consumer.max.retries
        peegeeq.consumer.visibility.timeout PeeGeeQConfiguration PeeGeeQMetrics
    """,
    "World's Smallest Queue": """
        Queue Handler enqueue partition awaitMessage ids awaited setupPGQueue teardownPGQueue
        Config pool messageTimeout maxMessageRetryCount messageErrorRetryInterval queueTimeout
        maxQueueRetryCount queueErrorRetryInterval dequeueInterval instanceId logLevel logger
        Logger Message id body retry_count created_at retry_at dead_messages CancellablePromise
        teardown
    """,
    "MQ task queue": """
        TaskStore mq_tasks mq_task_dlq mq_task_attempts id topic tenant_id payload meta priority
        dedupe_key status attempts max_attempts available_at lease_owner lease_until expires_at
        last_error last_error_at created_at updated_at task_id reason failed_at attempt_no
        started_at finished_at success idx_mq_tasks_ready idx_mq_tasks_lease
        idx_mq_tasks_tenant_topic uq_mq_tasks_dedupe SQLConfig EnableAttemptLog AttemptsTable
        AttemptLogHook
    """,
    "pgqs": """
        pgqs.invoke CreateQueue QueueName GetQueueUrl QueueUrl SendMessage MessageBody
        SendMessageBatch ReceiveMessage MaxNumberOfMessages Messages Body MessageId MD5OfBody
        ReceiptHandle DeleteMessage
    """,
}
