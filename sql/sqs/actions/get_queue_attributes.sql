-- GetQueueAttributes: those named, or All.
create or replace function pgqs_data.get_queue_attributes(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue   pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_names   text[] := pgqs_data.texts_of(p_request, 'AttributeNames');
    v_known   constant text[] := '{All,Policy,VisibilityTimeout,MaximumMessageSize,MessageRetentionPeriod,ApproximateNumberOfMessages,
        ApproximateNumberOfMessagesNotVisible,CreatedTimestamp,LastModifiedTimestamp,QueueArn,ApproximateNumberOfMessagesDelayed,
        DelaySeconds,ReceiveMessageWaitTimeSeconds,RedrivePolicy,FifoQueue,ContentBasedDeduplication,KmsMasterKeyId,
        KmsDataKeyReusePeriodSeconds,DeduplicationScope,FifoThroughputLimit,RedriveAllowPolicy,SqsManagedSseEnabled}';
    v_unknown text := (select n from unnest(v_names) n where n <> all (v_known) limit 1);
    v_all     jsonb;
    v_chosen  jsonb;
begin
    if v_unknown is not null then
        perform pgqs_data.unknown_attribute(v_unknown);
    end if;
    v_all := pgqs_data.settable_attributes(v_queue) || pgqs_data.fixed_attributes(v_queue);
    if v_names && '{All,ApproximateNumberOfMessages,ApproximateNumberOfMessagesNotVisible,ApproximateNumberOfMessagesDelayed}' then
        v_all := v_all || pgqs_data.counts(v_queue);
    end if;
    select jsonb_object_agg(e.key, e.value) into v_chosen from jsonb_each(v_all) e where 'All' = any (v_names) or e.key = any (v_names);
    return case when v_chosen is null then '{}' else jsonb_build_object('Attributes', v_chosen) end;
end
$$;

-- What SetQueueAttributes can set, as it is now.
create or replace function pgqs_data.settable_attributes(p_queue pgqs_data.queue) returns jsonb
language sql stable as $$
    select jsonb_strip_nulls((
            select jsonb_object_agg(n.name, pgqs_data.initial_attribute(n.name, p_queue.fifo))
            from (
                select a.name from pgqs_data.integer_attributes() a
                union all values ('SqsManagedSseEnabled'), ('FifoQueue'), ('ContentBasedDeduplication'), ('DeduplicationScope'), ('FifoThroughputLimit')
            ) n))
        || coalesce((select s.attributes from pgqs_data.queues s where s.queue_id = p_queue.id), '{}')
        || jsonb_strip_nulls(jsonb_build_object('MessageRetentionPeriod', (
            select extract(epoch from q.retention)::bigint::text from penstock_data.queues q where q.id = p_queue.id)))
$$;

-- The attributes that no request can set.
create or replace function pgqs_data.fixed_attributes(p_queue pgqs_data.queue) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'QueueArn', pgqs_data.arn(p_queue.account, p_queue.region, p_queue.name),
        'CreatedTimestamp', pgqs_data.seconds(q.created_at),
        'LastModifiedTimestamp', pgqs_data.seconds(greatest(q.created_at, s.modified_at)))
    from penstock_data.queues q left join pgqs_data.queues s on s.queue_id = q.id where q.id = p_queue.id
$$;

-- How many messages can be received, are in flight, and are delayed.  Of a long backlog about how many: to count it
-- would take as long as to read it.
create or replace function pgqs_data.counts(p_queue pgqs_data.queue) returns jsonb
language sql stable as $$
    select jsonb_build_object(
        'ApproximateNumberOfMessages', (u.count - u.delayed + s.count - s.delayed - s.resting + c.count - c.held)::text,
        'ApproximateNumberOfMessagesNotVisible', (c.held + s.resting)::text,
        'ApproximateNumberOfMessagesDelayed', (u.delayed + s.delayed)::text)
    from (select penstock_data.clock() as now) n
    cross join lateral penstock_data.unread_estimate(p_queue.id, 5000, n.now) u
    cross join lateral (
        select count(*), count(*) filter (where m.visible_at > n.now and m.attempt = 0) as delayed,
            count(*) filter (where m.visible_at > n.now and m.attempt > 0) as resting
        from penstock_data.scheduled_messages(p_queue.id) m
    ) s
    cross join lateral (
        select coalesce(sum(cardinality(c.message_ids)), 0)::bigint as count,
            coalesce(sum(cardinality(c.message_ids)) filter (where c.deadline > n.now), 0)::bigint as held
        from penstock_data.claims c where c.queue_id = p_queue.id
    ) c
$$;
