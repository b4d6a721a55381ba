-- CreateQueue.  A queue that exists is returned when every attribute given is what it has.
-- Locks: the settings lock of its name.  Errors: QueueNameExists, QueueDeletedRecently, InvalidAttributeName and
-- -Value.
create or replace function pgqs_data.create_queue(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_name       text := p_request ->> 'QueueName';
    v_account    text := coalesce(p_context ->> 'account', '000000000000');
    v_region     text := coalesce(p_context ->> 'region', 'us-east-1');
    v_engine     text := pgqs.engine_queue(v_account, v_region, v_name);
    v_given      jsonb := pgqs_data.map_of(p_request, 'Attributes');
    v_tags       jsonb := coalesce(nullif(pgqs_data.map_of(p_request, 'tags'), '{}'), pgqs_data.map_of(p_request, 'Tags'));
    v_fifo       boolean := coalesce(v_given ->> 'FifoQueue', '') = 'true';
    v_attributes jsonb;
    v_queue      pgqs_data.queue;
    v_own_topic  boolean;
    v_id         bigint;
begin
    perform pgqs_data.require(p_request, 'QueueName');
    perform pgqs_data.check_queue_name(v_name, v_fifo, v_given);
    perform pgqs_data.check_tags(v_tags);
    perform pgqs_data.lock_settings(v_engine);
    v_queue := pgqs_data.queue_named(v_engine);
    if v_queue.id is not null then
        perform pgqs_data.check_same_attributes(v_queue, v_given);
        return jsonb_build_object('QueueUrl', pgqs_data.queue_url(v_account, v_region, v_name, p_context));
    end if;
    perform pgqs_data.check_not_recent('deleted', v_engine);

    v_attributes := pgqs_data.merged_attributes(pgqs_data.arn(v_account, v_region, v_name), v_fifo, '{}', v_given - 'FifoQueue');
    v_own_topic := not exists (select from penstock_data.topics t where t.name = v_engine);
    v_id := penstock.create_queue(v_engine, max_delivery_attempts => 0, ordering => case when v_fifo then 'fifo' else 'standard' end,
        retention => make_interval(secs => coalesce((v_attributes ->> 'MessageRetentionPeriod')::int, 345600)));
    update penstock_data.queues q set runs = v_fifo where q.id = v_id and v_fifo;
    insert into pgqs_data.queues (queue_id, attributes, tags, owns_topic, dedupe_scope, modified_at)
    values (v_id, v_attributes, v_tags, v_own_topic, coalesce(v_attributes ->> 'DeduplicationScope', 'queue'), penstock_data.clock());
    return jsonb_build_object('QueueUrl', pgqs_data.queue_url(v_account, v_region, v_name, p_context));
end
$$;

-- Refuse a name that SQS does not allow, and a kind that does not go with the name.
create or replace function pgqs_data.check_queue_name(p_name text, p_fifo boolean, p_given jsonb) returns void
language plpgsql as $$
begin
    if p_fifo and (p_name !~ '^[A-Za-z0-9_-]+\.fifo$' or char_length(p_name) > 80) then
        perform pgqs_data.fail('InvalidParameterValueException', 'The name of a FIFO queue can only include alphanumeric characters, '
            'hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length.');
    elsif not p_fifo and (p_name !~ '^[A-Za-z0-9_-]+$' or char_length(p_name) > 80) then
        perform pgqs_data.fail('InvalidParameterValueException',
            'Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length');
    elsif not p_fifo and p_given ? 'FifoQueue' then
        perform pgqs_data.unknown_attribute('FifoQueue');
    end if;
end
$$;

-- Refuse to take a queue for another one.
create or replace function pgqs_data.check_same_attributes(p_queue pgqs_data.queue, p_given jsonb) returns void
language plpgsql as $$
declare
    v_now    jsonb := pgqs_data.settable_attributes(p_queue);
    -- Checked first, so that nonsense is called nonsense.
    v_wanted jsonb := pgqs_data.merged_attributes(pgqs_data.arn(p_queue.account, p_queue.region, p_queue.name), p_queue.fifo, '{}',
        p_given - 'FifoQueue');
    v_name   text;
begin
    select e.key into v_name
    from jsonb_each_text(v_wanted) e
    where p_given ? e.key and (v_now ->> e.key) is distinct from e.value
    order by e.key limit 1;
    if v_name is not null then
        perform pgqs_data.fail('QueueNameExists', format('A queue already exists with the same name and a different value for attribute %s', v_name));
    end if;
end
$$;

-- SQS wants a minute between deleting a queue and making it again, and between two purges.
create or replace function pgqs_data.check_not_recent(p_kind text, p_engine_name text) returns void
language plpgsql as $$
declare
    v_recent boolean := exists (
        select from pgqs_data.recent_events r cross join pgqs_data.system s
        where r.kind = p_kind and r.engine_name = p_engine_name
          and r.at + case p_kind when 'deleted' then s.recreate_wait else s.purge_wait end > penstock_data.clock());
begin
    if v_recent and p_kind = 'deleted' then
        perform pgqs_data.fail('QueueDeletedRecently', 'You must wait 60 seconds after deleting a queue before you can create another with the same name.');
    elsif v_recent then
        perform pgqs_data.fail('PurgeQueueInProgress', format('Only one PurgeQueue operation on %s is allowed every 60 seconds.',
            split_part(p_engine_name, '/', -1)));
    end if;
end
$$;

-- Remember when a queue was deleted or purged.
create or replace function pgqs_data.note_event(p_kind text, p_engine_name text) returns void
language sql as $$
    insert into pgqs_data.recent_events (kind, engine_name, at) values (p_kind, p_engine_name, penstock_data.clock())
    on conflict (kind, engine_name) do update set at = excluded.at
$$;
