-- CancelMessageMoveTask.  What was moved stays where it is.
create or replace function pgqs_data.cancel_message_move_task(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_text   text := p_request ->> 'TaskHandle';
    v_handle jsonb;
    v_moved  bigint;
begin
    perform pgqs_data.require(p_request, 'TaskHandle');
    if pgqs_data.is_base64(v_text) then
        v_handle := pgqs_data.as_json(convert_from(decode(v_text, 'base64'), 'LATIN1'));
    end if;
    if not coalesce(v_handle ?& '{taskId,sourceArn}', false) then
        perform pgqs_data.fail('InvalidParameterValueException', 'Value for parameter TaskHandle is invalid.');
    end if;
    perform pgqs_data.queue_of_arn(v_handle ->> 'sourceArn', 'SourceArn');
    -- Waits for a step that is under way, which may be its last.
    update pgqs_data.move_tasks t set status = 'CANCELLED'
    where t.id::text = v_handle ->> 'taskId' and t.source_arn = v_handle ->> 'sourceArn' and t.status = 'RUNNING'
    returning t.moved into v_moved;
    if not found then
        perform pgqs_data.fail('ResourceNotFoundException', 'Task does not exist.');
    end if;
    return jsonb_build_object('ApproximateNumberOfMessagesMoved', v_moved);
end
$$;
