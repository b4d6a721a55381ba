-- A policy as it is kept, or an error.  Who may do what by it is for the one who knows who calls: the server.
create or replace function pgqs_data.checked_policy(p_text text) returns text
language plpgsql as $$
declare
    v_policy     jsonb := pgqs_data.as_json(p_text);
    v_statements jsonb;
begin
    if jsonb_typeof(v_policy) is distinct from 'object' then
        perform pgqs_data.bad_attribute('Policy');
    end if;
    v_statements := case when jsonb_typeof(v_policy -> 'Statement') = 'object' then jsonb_build_array(v_policy -> 'Statement')
                         else v_policy -> 'Statement' end;
    if jsonb_typeof(v_statements) is distinct from 'array' or exists (
        select from jsonb_array_elements(v_statements) s
        where jsonb_typeof(s) <> 'object' or (s ->> 'Effect') is null or s ->> 'Effect' not in ('Allow', 'Deny')
           or not (s ? 'Action' or s ? 'NotAction')
    ) then
        perform pgqs_data.bad_attribute('Policy');
    end if;
    perform pgqs_data.check_policy_limits(v_statements, octet_length(p_text));
    return p_text;
end
$$;

-- SQS's limits of a policy: 8192 bytes, 20 statements, 50 principals, 10 conditions, 7 actions a statement.
create or replace function pgqs_data.check_policy_limits(p_statements jsonb, p_bytes int) returns void
language plpgsql as $$
declare
    v_fault text := case
        when p_bytes > 8192 then 'Policy length'
        when jsonb_array_length(p_statements) > 20 then 'statements'
        when exists (select from jsonb_array_elements(p_statements) s
                     where pgqs_data.count_of(s -> 'Action') > 7) then 'actions'
        when (select sum(pgqs_data.count_of(case when jsonb_typeof(s -> 'Principal') = 'object' then s -> 'Principal' -> 'AWS' else s -> 'Principal' end))
              from jsonb_array_elements(p_statements) s) > 50 then 'principals'
        when (select count(*) from jsonb_array_elements(p_statements) s
              cross join lateral jsonb_each(case when jsonb_typeof(s -> 'Condition') = 'object' then s -> 'Condition' else '{}' end) o) > 10 then 'conditions'
    end;
begin
    if v_fault is not null then
        perform pgqs_data.fail('OverLimit', format('The policy exceeds the limit of %s.', v_fault));
    end if;
end
$$;

-- How many a value that may be one or a list holds.
create or replace function pgqs_data.count_of(p_value jsonb) returns int
language sql immutable as $$
    select case jsonb_typeof(p_value) when 'array' then jsonb_array_length(p_value) when 'null' then 0 else (p_value is not null)::int end
$$;

-- A redrive policy as it is kept: the target exists, is the same owner's and of the same kind, and lets this queue use
-- it.
create or replace function pgqs_data.checked_redrive_policy(p_queue_arn text, p_fifo boolean, p_text text) returns text
language plpgsql as $$
declare
    v_policy jsonb := pgqs_data.as_json(p_text);
    v_arn    text := v_policy ->> 'deadLetterTargetArn';
    v_count  text := v_policy ->> 'maxReceiveCount';
    v_target pgqs_data.queue := pgqs_data.queue_named(pgqs_data.engine_queue_of_arn(v_arn));
    v_fault  text;
begin
    if jsonb_typeof(v_policy) is distinct from 'object' then
        v_fault := 'Redrive policy is not a valid JSON map.';
    elsif v_arn is null then
        v_fault := 'Redrive policy does not contain mandatory attribute: deadLetterTargetArn.';
    elsif v_count is null then
        v_fault := 'Redrive policy does not contain mandatory attribute: maxReceiveCount.';
    elsif v_policy - array['deadLetterTargetArn', 'maxReceiveCount'] <> '{}' then
        v_fault := 'Only following attributes are supported: [deadLetterTargetArn, maxReceiveCount].';
    elsif v_count !~ '^\d{1,9}$' or v_count::int not between 1 and 1000 then
        v_fault := 'Invalid value for maxReceiveCount: ' || left(v_count, 20) || ', valid values are from 1 to 1000 both inclusive.';
    elsif pgqs_data.engine_queue_of_arn(v_arn) is null then
        v_fault := 'Invalid value for deadLetterTargetArn.';
    elsif not pgqs_data.same_home(v_arn, p_queue_arn) then
        -- Checked before the target's existence: the answer must not tell which queues another account or region has.
        v_fault := 'Dead-letter queue must be in the same account and region.';
    elsif v_target.id is null then
        v_fault := 'Dead letter target does not exist.';
    elsif v_target.fifo <> p_fifo then
        v_fault := case when p_fifo then 'Dead-letter queue must be a FIFO queue.' else 'Dead-letter queue must be a standard queue.' end;
    elsif not pgqs_data.allows_redrive(v_target.id, p_queue_arn) then
        v_fault := 'Queue ' || v_arn || ' does not allow this queue to use it as a dead-letter queue.';
    end if;
    if v_fault is not null then
        perform pgqs_data.raise(pgqs_data.invalid_value(p_text, 'RedrivePolicy', v_fault));
    end if;
    return format('{"deadLetterTargetArn":%s,"maxReceiveCount":%s}', to_json(v_arn), v_count::int);
end
$$;

-- Do two ARNs name queues of one account and region?
create or replace function pgqs_data.same_home(p_arn text, p_other text) returns boolean
language sql immutable as $$
    select split_part(p_arn, ':', 4) = split_part(p_other, ':', 4) and split_part(p_arn, ':', 5) = split_part(p_other, ':', 5)
$$;

-- May this queue have that one as its dead-letter queue?
create or replace function pgqs_data.allows_redrive(p_target_id bigint, p_source_arn text) returns boolean
language sql stable as $$
    select coalesce((
        select case p ->> 'redrivePermission'
            when 'denyAll' then false
            when 'byQueue' then p -> 'sourceQueueArns' ? p_source_arn
            else true end
        from pgqs_data.queues s cross join lateral (select (s.attributes ->> 'RedriveAllowPolicy')::jsonb as p) a
        where s.queue_id = p_target_id and p is not null), true)
$$;

-- A redrive-allow policy as it is kept.
create or replace function pgqs_data.checked_redrive_allow_policy(p_text text) returns text
language plpgsql as $$
declare
    v_policy  jsonb := pgqs_data.as_json(p_text);
    v_who     text := v_policy ->> 'redrivePermission';
    v_sources jsonb := v_policy -> 'sourceQueueArns';
    v_fault   text;
begin
    if jsonb_typeof(v_policy) is distinct from 'object' then
        v_fault := 'Amazon SQS can''t create the redrive allow policy, as it''s not a valid JSON map.';
    elsif v_who is null or v_who not in ('allowAll', 'denyAll', 'byQueue') then
        v_fault := 'Invalid value for redrivePermission. Valid values are: [allowAll, denyAll, byQueue].';
    elsif v_who <> 'byQueue' and v_sources is not null then
        v_fault := 'sourceQueueArns can be given only with redrivePermission byQueue.';
    elsif v_who = 'byQueue' and (jsonb_typeof(v_sources) is distinct from 'array' or jsonb_array_length(v_sources) not between 1 and 10) then
        v_fault := 'sourceQueueArns must hold from 1 to 10 queue ARNs.';
    elsif exists (
        select from jsonb_array_elements_text(case when jsonb_typeof(v_sources) = 'array' then v_sources else '[]' end) s
        where pgqs_data.engine_queue_of_arn(s) is null
    ) then
        v_fault := 'sourceQueueArns must hold ARNs of queues.';
    end if;
    if v_fault is not null then
        perform pgqs_data.raise(pgqs_data.invalid_value(p_text, 'RedriveAllowPolicy', v_fault));
    end if;
    return p_text;
end
$$;
