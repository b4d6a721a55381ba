-- What SQS knows of a queue beyond the engine.  A queue without a row here has SQS's defaults.
create table if not exists pgqs_data.queues (
    queue_id    bigint primary key references penstock_data.queues on delete cascade,
    attributes  jsonb not null default '{}',    -- as they were set: {"VisibilityTimeout": "60"}
    tags        jsonb not null default '{}',
    owns_topic  boolean not null default false, -- CreateQueue made the topic, so DeleteQueue drops it
    -- Frozen when the queue is created: a later change of DeduplicationScope does not change what is a duplicate.
    dedupe_scope  text not null default 'queue',
    modified_at   timestamptz not null,
    -- The attributes that every message meets, ready for use.
    visibility_timeout     int generated always as ((attributes ->> 'VisibilityTimeout')::int) stored,
    delay_seconds          int generated always as ((attributes ->> 'DelaySeconds')::int) stored,
    maximum_message_size   int generated always as ((attributes ->> 'MaximumMessageSize')::int) stored,
    receive_wait_seconds   int generated always as ((attributes ->> 'ReceiveMessageWaitTimeSeconds')::int) stored,
    content_based          boolean generated always as ((attributes ->> 'ContentBasedDeduplication')::boolean) stored,
    redrive_target         text generated always as (((attributes ->> 'RedrivePolicy')::jsonb) ->> 'deadLetterTargetArn') stored,
    max_receive_count      int generated always as ((((attributes ->> 'RedrivePolicy')::jsonb) ->> 'maxReceiveCount')::int) stored
);
do $$
begin
    if to_regclass('pgqs_data.queues_redrive_target') is null then
        create index queues_redrive_target on pgqs_data.queues (redrive_target) where redrive_target is not null;
    end if;
end
$$;

-- When queues were deleted or purged last: SQS wants a minute before either is done again.
create table if not exists pgqs_data.recent_events (
    kind         text not null,
    engine_name  text not null,
    at           timestamptz not null,
    primary key (kind, engine_name)
);
