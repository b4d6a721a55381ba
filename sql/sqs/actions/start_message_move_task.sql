-- StartMessageMoveTask: messages of a dead-letter queue go back to where they came from, or to another queue.  The task
-- is carried on by pgqs.run_move_tasks(), which maintain() and servers call.
-- Errors: ResourceNotFoundException, InvalidParameterValue.
create or replace function pgqs_data.start_message_move_task(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_source text := p_request ->> 'SourceArn';
    v_target text := p_request ->> 'DestinationArn';
    v_rate   bigint := pgqs_data.integer_of(p_request, 'MaxNumberOfMessagesPerSecond');
    v_queue  pgqs_data.queue;
    v_goal   pgqs_data.queue;
    v_task   uuid;
begin
    perform pgqs_data.require(p_request, 'SourceArn');
    v_queue := pgqs_data.queue_of_arn(v_source, 'SourceArn');
    if not exists (select from pgqs_data.queues s where s.redrive_target = v_source) then
        perform pgqs_data.fail('InvalidParameterValueException', 'Source queue must be configured as a Dead Letter Queue.');
    elsif v_rate not between 1 and 500 then
        perform pgqs_data.raise(pgqs_data.invalid_value(v_rate::text, 'MaxNumberOfMessagesPerSecond', 'Must be an integer from 1 to 500.'));
    end if;
    if v_target is not null then
        if pgqs_data.engine_queue_of_arn(v_target) is not null and not pgqs_data.same_home(v_target, v_source) then
            perform pgqs_data.fail('InvalidParameterValueException', 'Source queue and destination queue must be in the same account and region.');
        end if;
        v_goal := pgqs_data.queue_of_arn(v_target, 'DestinationArn');
        if v_goal.id = v_queue.id then
            perform pgqs_data.fail('InvalidParameterValueException', 'Source queue arn and destination queue arn cannot be the same.');
        elsif v_goal.fifo <> v_queue.fifo then
            perform pgqs_data.fail('InvalidParameterValueException', 'Source queue and destination queue must be of the same type.');
        end if;
    end if;
    perform pgqs_data.lock_settings(v_queue.engine_name);
    if exists (select from pgqs_data.move_tasks t where t.source_arn = v_source and t.status in ('RUNNING', 'CANCELLING')) then
        perform pgqs_data.fail('InvalidParameterValueException',
            'There is already a task running. Only one active task is allowed for a source queue arn at a given time.');
    end if;
    insert into pgqs_data.move_tasks (source_arn, destination_arn, rate, to_move, started_at)
    values (v_source, v_target, v_rate, (pgqs_data.counts(v_queue) ->> 'ApproximateNumberOfMessages')::bigint, penstock_data.clock())
    returning id into v_task;
    return jsonb_build_object('TaskHandle', pgqs_data.task_handle(v_task, v_source));
end
$$;

-- The queue that an ARN in a request means.
create or replace function pgqs_data.queue_of_arn(p_arn text, p_parameter text) returns pgqs_data.queue
language plpgsql stable as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_named(pgqs_data.engine_queue_of_arn(p_arn));
begin
    if v_queue.id is null then
        perform pgqs_data.fail('ResourceNotFoundException', format('The resource that you specified for the %s parameter doesn''t exist.', p_parameter));
    end if;
    return v_queue;
end
$$;

create or replace function pgqs_data.task_handle(p_task uuid, p_source_arn text) returns text
language sql immutable as $$
    select translate(encode(convert_to(jsonb_build_object('taskId', p_task, 'sourceArn', p_source_arn)::text, 'UTF8'), 'base64'), E'\n', '')
$$;
