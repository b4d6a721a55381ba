-- The engine's queue behind an SQS queue.  In the default account (000000000000) and region (us-east-1) it has the same
-- name, so that SQL, Python and SQS clients use the same queue.
-- Roles: publisher, consumer, monitor, admin
create or replace function pgqs.engine_queue(account text, region text, name text) returns text
language sql immutable as $$
    select case when coalesce($1, '000000000000') = '000000000000' and coalesce($2, 'us-east-1') = 'us-east-1' then $3
        else coalesce($1, '000000000000') || '/' || coalesce($2, 'us-east-1') || '/' || $3 end
$$;
comment on function pgqs.engine_queue(text, text, text) is 'The name of the engine''s queue behind an SQS queue.';

-- Is this a name that SQS allows?
create or replace function pgqs_data.is_valid_name(p_name text) returns boolean
language sql immutable as $$
    select char_length(p_name) <= 80 and p_name ~ '^[A-Za-z0-9_-]+(?:\.fifo)?$'
$$;

-- The URL of a queue as the caller should see it.  context.queue_url is a pattern with {account}, {region} and {name};
-- context.base_url the address before /<account>/<name>; without either the URL names this installation.
create or replace function pgqs_data.queue_url(p_account text, p_region text, p_name text, p_context jsonb) returns text
language sql stable as $$
    select case
        when p_context ? 'queue_url' then
            replace(replace(replace(p_context ->> 'queue_url', '{account}', p_account), '{region}', p_region), '{name}', p_name)
        when p_context ? 'base_url' then
            concat_ws('/', rtrim(p_context ->> 'base_url', '/'), p_account, p_name)
        when p_account = '000000000000' and p_region = 'us-east-1' then
            format('pgqs://pgqs.system:%s/%s', (select s.id from pgqs_data.system s), p_name)
        else
            format('pgqs://pgqs.system:%s/%s/%s/%s', (select s.id from pgqs_data.system s), p_region, p_account, p_name)
    end
$$;

create or replace function pgqs_data.arn(p_account text, p_region text, p_name text) returns text
language sql immutable as $$
    select format('arn:aws:sqs:%s:%s:%s', p_region, p_account, p_name)
$$;

-- The engine's queue that an ARN means; null when it is no ARN of a queue.
create or replace function pgqs_data.engine_queue_of_arn(p_arn text) returns text
language sql immutable as $$
    select pgqs.engine_queue(m[2], m[1], m[3])
    from regexp_match(p_arn, '^arn:aws[a-z-]*:sqs:([a-z0-9-]+):(\d{12}):([A-Za-z0-9_.-]+)$') m
$$;
