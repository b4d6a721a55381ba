-- GetQueueUrl.
create or replace function pgqs_data.get_queue_url(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_account text := coalesce(p_request ->> 'QueueOwnerAWSAccountId', p_context ->> 'account', '000000000000');
    v_region  text := coalesce(p_context ->> 'region', 'us-east-1');
    v_name    text := p_request ->> 'QueueName';
begin
    perform pgqs_data.require(p_request, 'QueueName');
    if pgqs_data.is_valid_name(v_name) is not true
       or (pgqs_data.queue_named(pgqs.engine_queue(v_account, v_region, v_name))).id is null then
        perform pgqs_data.raise(pgqs_data.no_queue(p_context));
    end if;
    return jsonb_build_object('QueueUrl', pgqs_data.queue_url(v_account, v_region, v_name, p_context));
end
$$;
