-- ListMessageMoveTasks: the newest of a source queue first.
create or replace function pgqs_data.list_message_move_tasks(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_most bigint := coalesce(pgqs_data.integer_of(p_request, 'MaxResults'), 1);
    v_list jsonb;
begin
    perform pgqs_data.require(p_request, 'SourceArn');
    if v_most not between 1 and 10 then
        perform pgqs_data.raise(pgqs_data.invalid_value(v_most::text, 'MaxResults', 'Must be an integer from 1 to 10.'));
    end if;
    perform pgqs_data.queue_of_arn(p_request ->> 'SourceArn', 'SourceArn');
    select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
        'TaskHandle', case when t.status = 'RUNNING' then pgqs_data.task_handle(t.id, t.source_arn) end,
        'Status', t.status,
        'SourceArn', t.source_arn,
        'DestinationArn', t.destination_arn,
        'MaxNumberOfMessagesPerSecond', t.rate,
        'ApproximateNumberOfMessagesMoved', t.moved,
        'ApproximateNumberOfMessagesToMove', t.to_move,
        'FailureReason', t.failure_reason,
        'StartedTimestamp', floor(extract(epoch from t.started_at) * 1000)::bigint)) order by t.seq desc)
    into v_list
    from (select * from pgqs_data.move_tasks t where t.source_arn = p_request ->> 'SourceArn' order by t.seq desc limit v_most) t;
    return case when v_list is null then '{}' else jsonb_build_object('Results', v_list) end;
end
$$;
