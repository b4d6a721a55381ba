-- The attributes of a queue that are whole numbers, with their ranges and defaults.
create or replace function pgqs_data.integer_attributes() returns table (name text, low int, high int, initial text)
language sql immutable rows 6 as $$
    values ('VisibilityTimeout', 0, 43200, '30'), ('DelaySeconds', 0, 900, '0'), ('MessageRetentionPeriod', 60, 1209600, '345600'),
        ('ReceiveMessageWaitTimeSeconds', 0, 20, '0'), ('MaximumMessageSize', 1024, 1048576, '1048576'),
        ('KmsDataKeyReusePeriodSeconds', 60, 86400, '300')
$$;

-- The value of a queue's attribute that was never set; null: the attribute is then absent.
create or replace function pgqs_data.initial_attribute(p_name text, p_fifo boolean) returns text
language sql immutable as $$
    select case
        when p_name = 'SqsManagedSseEnabled' then 'true'
        when p_name = 'FifoQueue' and p_fifo then 'true'
        when p_name = 'ContentBasedDeduplication' and p_fifo then 'false'
        when p_name = 'DeduplicationScope' and p_fifo then 'queue'
        when p_name = 'FifoThroughputLimit' and p_fifo then 'perQueue'
        when p_name <> 'KmsDataKeyReusePeriodSeconds' then (select a.initial from pgqs_data.integer_attributes() a where a.name = p_name)
    end
$$;

create or replace function pgqs_data.unknown_attribute(p_name text) returns void
language sql as $$
    select pgqs_data.fail('InvalidAttributeName', format('Unknown Attribute %s.', p_name))
$$;

create or replace function pgqs_data.bad_attribute(p_name text, p_reason text default null) returns void
language sql as $$
    select pgqs_data.fail('InvalidAttributeValue', concat_ws(' ', format('Invalid value for the parameter %s.', p_name), 'Reason: ' || p_reason))
$$;

-- Text that should be JSON, as JSON; null when it is none.
create or replace function pgqs_data.as_json(p_text text) returns jsonb
language plpgsql immutable as $$
begin
    return p_text::jsonb;
exception when others then
    return null;
end
$$;

-- The value of one attribute as it is kept, or the error that it deserves.  An empty value is for the caller to remove.
create or replace function pgqs_data.checked_attribute(p_queue_arn text, p_fifo boolean, p_name text, p_value text) returns text
language plpgsql as $$
declare
    v_range record;
begin
    select * into v_range from pgqs_data.integer_attributes() a where a.name = p_name;
    if found then
        if p_value !~ '^\d{1,9}$' or p_value::int not between v_range.low and v_range.high then
            perform pgqs_data.bad_attribute(p_name);
        end if;
        return p_value::int::text;
    end if;
    case
        when p_name in ('ContentBasedDeduplication', 'DeduplicationScope', 'FifoThroughputLimit') and not p_fifo then
            perform pgqs_data.unknown_attribute(p_name);
        when p_name in ('ContentBasedDeduplication', 'SqsManagedSseEnabled') then
            if lower(p_value) not in ('true', 'false') then
                perform pgqs_data.bad_attribute(p_name);
            end if;
            return lower(p_value);
        when p_name = 'DeduplicationScope' then
            if p_value not in ('queue', 'messageGroup') then
                perform pgqs_data.bad_attribute(p_name);
            end if;
        when p_name = 'FifoThroughputLimit' then
            if p_value not in ('perQueue', 'perMessageGroupId') then
                perform pgqs_data.bad_attribute(p_name);
            end if;
        when p_name = 'KmsMasterKeyId' then
            null;
        when p_name = 'Policy' then
            return pgqs_data.checked_policy(p_value);
        when p_name = 'RedrivePolicy' then
            return pgqs_data.checked_redrive_policy(p_queue_arn, p_fifo, p_value);
        when p_name = 'RedriveAllowPolicy' then
            return pgqs_data.checked_redrive_allow_policy(p_value);
        else
            perform pgqs_data.unknown_attribute(p_name);
    end case;
    return p_value;
end
$$;

-- A queue's attributes after some were set: p_old with p_new, checked one by one and against each other.
create or replace function pgqs_data.merged_attributes(p_queue_arn text, p_fifo boolean, p_old jsonb, p_new jsonb) returns jsonb
language plpgsql as $$
declare
    v_result jsonb := p_old;
    v_name   text;
    v_value  text;
begin
    for v_name, v_value in select e.key, e.value from jsonb_each_text(p_new) e order by e.key loop
        if v_value is null or v_value = '' then
            -- An empty text puts an attribute back to what it was at the beginning.
            if pgqs_data.initial_attribute(v_name, p_fifo) is null
               and v_name not in ('Policy', 'RedrivePolicy', 'RedriveAllowPolicy', 'KmsMasterKeyId', 'KmsDataKeyReusePeriodSeconds') then
                perform pgqs_data.unknown_attribute(v_name);
            end if;
            v_result := v_result - v_name;
        else
            v_result := v_result || jsonb_build_object(v_name, pgqs_data.checked_attribute(p_queue_arn, p_fifo, v_name, v_value));
        end if;
    end loop;
    if v_result ->> 'FifoThroughputLimit' = 'perMessageGroupId' and v_result ->> 'DeduplicationScope' is distinct from 'messageGroup' then
        perform pgqs_data.bad_attribute('FifoThroughputLimit', 'The DeduplicationScope attribute must be set to messageGroup.');
    end if;
    if v_result ? 'KmsMasterKeyId' and (p_new ->> 'SqsManagedSseEnabled') = 'true' then
        perform pgqs_data.fail('InvalidAttributeName',
            'You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.');
    elsif v_result ? 'KmsMasterKeyId' then
        v_result := v_result || '{"SqsManagedSseEnabled": "false"}';
    end if;
    return v_result;
end
$$;

-- Keep a queue's attributes: those that the engine knows in its own table, all of them in ours.
create or replace function pgqs_data.store_attributes(p_queue_id bigint, p_attributes jsonb) returns void
language plpgsql as $$
declare
    v_retention interval := make_interval(secs => coalesce((p_attributes ->> 'MessageRetentionPeriod')::int, 345600));
begin
    insert into pgqs_data.queues as s (queue_id, attributes, modified_at)
    values (p_queue_id, p_attributes, penstock_data.clock())
    on conflict (queue_id) do update set attributes = excluded.attributes, modified_at = excluded.modified_at;
    -- A queue that the engine made keeps its retention until a request sets MessageRetentionPeriod.
    update penstock_data.queues q set retention = v_retention
    where q.id = p_queue_id and q.retention is distinct from v_retention and (q.retention is not null or p_attributes ? 'MessageRetentionPeriod');
end
$$;
