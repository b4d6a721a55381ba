-- May the caller do this?  Publishers send, consumers receive, monitors look, administrators do everything.
create or replace function pgqs_data.check_right(p_action text) returns void
language plpgsql stable as $$
declare
    v_caller name := penstock_data.caller();
    v_roles  text[] := case
        when p_action in ('SendMessage', 'SendMessageBatch') then '{penstock_publisher}'
        when p_action in ('ReceiveMessage', 'DeleteMessage', 'DeleteMessageBatch', 'ChangeMessageVisibility', 'ChangeMessageVisibilityBatch') then
            '{penstock_consumer}'
        when p_action = 'GetQueueUrl' then '{penstock_publisher,penstock_consumer,penstock_monitor}'
        when p_action in ('ListQueues', 'GetQueueAttributes', 'ListQueueTags', 'ListDeadLetterSourceQueues', 'ListMessageMoveTasks') then
            '{penstock_monitor}'
        else '{}' end;
begin
    if not exists (
        select from unnest(v_roles || '{penstock_admin}'::text[]) r where pg_has_role(v_caller, to_regrole(r), 'member')
    ) and not pg_has_role(v_caller, current_user, 'member') then
        perform pgqs_data.fail('AccessDenied', format('Role %I may not perform %s.', v_caller, p_action));
    end if;
end
$$;

-- Perform an action of Amazon SQS: its request and its answer as in the JSON protocol.
--     select pgqs.invoke('SendMessage', '{"QueueUrl": "my-queue", "MessageBody": "Hello, world!"}');
-- context, for servers: {"account", "region", "base_url" or "queue_url", "sender_id", "trace_header", "protocol"}.
-- Errors: SQLSTATE PQ400 with SQS's message; the detail is JSON with shape, query_code and status (pgqs.error_shapes).
-- Roles: publisher, consumer, monitor, admin
create or replace function pgqs.invoke(action text, request jsonb, context jsonb default null) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
begin
    if penstock_data.caller() <> current_user then
        perform pgqs_data.check_right(action);
    end if;
    if jsonb_typeof(request) is distinct from 'object' then
        perform pgqs_data.fail('InvalidParameterValueException', 'The request must be a JSON object.');
    end if;
    case action
        when 'SendMessage' then return pgqs_data.send_message(request, context);
        when 'ReceiveMessage' then return pgqs_data.receive_message(request, context);
        when 'DeleteMessage' then return pgqs_data.delete_message(request, context);
        when 'SendMessageBatch' then return pgqs_data.send_message_batch(request, context);
        when 'DeleteMessageBatch' then return pgqs_data.delete_message_batch(request, context);
        when 'ChangeMessageVisibility' then return pgqs_data.change_message_visibility(request, context);
        when 'ChangeMessageVisibilityBatch' then return pgqs_data.change_message_visibility_batch(request, context);
        when 'GetQueueUrl' then return pgqs_data.get_queue_url(request, context);
        when 'GetQueueAttributes' then return pgqs_data.get_queue_attributes(request, context);
        when 'SetQueueAttributes' then return pgqs_data.set_queue_attributes(request, context);
        when 'CreateQueue' then return pgqs_data.create_queue(request, context);
        when 'DeleteQueue' then return pgqs_data.delete_queue(request, context);
        when 'ListQueues' then return pgqs_data.list_queues(request, context);
        when 'PurgeQueue' then return pgqs_data.purge_queue(request, context);
        when 'TagQueue' then return pgqs_data.tag_queue(request, context);
        when 'UntagQueue' then return pgqs_data.untag_queue(request, context);
        when 'ListQueueTags' then return pgqs_data.list_queue_tags(request, context);
        when 'AddPermission' then return pgqs_data.add_permission(request, context);
        when 'RemovePermission' then return pgqs_data.remove_permission(request, context);
        when 'ListDeadLetterSourceQueues' then return pgqs_data.list_dead_letter_source_queues(request, context);
        when 'StartMessageMoveTask' then return pgqs_data.start_message_move_task(request, context);
        when 'ListMessageMoveTasks' then return pgqs_data.list_message_move_tasks(request, context);
        when 'CancelMessageMoveTask' then return pgqs_data.cancel_message_move_task(request, context);
        else
            perform pgqs_data.fail('InvalidAction', format('The action %s is not valid for this endpoint.', coalesce(action, 'null')));
    end case;
end
$$;
comment on function pgqs.invoke(text, jsonb, jsonb) is 'Perform an action of Amazon SQS: its JSON in and out.';
