-- AddPermission: one more statement in the queue's policy.  Errors: OverLimit beyond seven actions,
-- InvalidParameterValue.
create or replace function pgqs_data.add_permission(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue     pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_label     text := p_request ->> 'Label';
    v_accounts  text[] := pgqs_data.texts_of(p_request, 'AWSAccountIds');
    v_actions   text[] := pgqs_data.texts_of(p_request, 'Actions');
    v_arn       text := pgqs_data.arn(v_queue.account, v_queue.region, v_queue.name);
    v_policy    jsonb;
    v_statement jsonb;
begin
    perform pgqs_data.require(p_request, p) from unnest('{Label,AWSAccountIds,Actions}'::text[]) p;
    perform pgqs_data.check_permission(v_label, v_accounts, v_actions);
    perform pgqs_data.lock_settings(v_queue.engine_name);
    v_policy := coalesce(pgqs_data.policy_of(v_queue.id), jsonb_build_object(
        'Version', '2008-10-17', 'Id', v_arn || '/SQSDefaultPolicy', 'Statement', '[]'::jsonb));
    if exists (select from jsonb_array_elements(v_policy -> 'Statement') s where s ->> 'Sid' = v_label) then
        perform pgqs_data.raise(pgqs_data.invalid_value(v_label, 'Label', 'Already exists.'));
    end if;
    v_statement := jsonb_build_object(
        'Sid', v_label, 'Effect', 'Allow',
        'Principal', jsonb_build_object('AWS', pgqs_data.one_or_list(array(
            select 'arn:aws:iam::' || a.id || ':root' from unnest(v_accounts) with ordinality as a(id, place) order by a.place))),
        'Action', pgqs_data.one_or_list(array(select 'SQS:' || a.name from unnest(v_actions) with ordinality as a(name, place) order by a.place)),
        'Resource', v_arn);
    perform pgqs_data.store_policy(v_queue.id, v_policy || jsonb_build_object('Statement', v_policy -> 'Statement' || v_statement));
    return '{}';
end
$$;

-- Refuse labels, accounts and actions that a policy cannot have.
create or replace function pgqs_data.check_permission(p_label text, p_accounts text[], p_actions text[]) returns void
language plpgsql as $$
declare
    -- The others are the owner's alone.
    v_allowed constant text[] := '{*,SendMessage,ReceiveMessage,DeleteMessage,ChangeMessageVisibility,GetQueueAttributes,GetQueueUrl,
        ListDeadLetterSourceQueues,PurgeQueue}';
    v_bad     text;
begin
    if p_label !~ '^[A-Za-z0-9_-]{1,80}$' then
        perform pgqs_data.raise(pgqs_data.invalid_value(left(p_label, 100), 'Label',
            'Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.'));
    elsif cardinality(p_actions) > 7 then
        perform pgqs_data.fail('OverLimit', format('%s Actions were found, maximum allowed is 7.', cardinality(p_actions)));
    end if;
    v_bad := (select a from unnest(p_actions) a where a <> all (v_allowed) limit 1);
    if v_bad is not null then
        perform pgqs_data.raise(pgqs_data.invalid_value('SQS:' || left(v_bad, 80), 'ActionName', 'Only the queue owner is allowed to invoke this action.'));
    end if;
    v_bad := (select a from unnest(p_accounts) a where a !~ '^\d{12}$' limit 1);
    if v_bad is not null then
        perform pgqs_data.raise(pgqs_data.invalid_value(left(v_bad, 80), 'PrincipalId', 'Unable to verify.'));
    end if;
end
$$;

-- One text, or a list of several.
create or replace function pgqs_data.one_or_list(p_texts text[]) returns jsonb
language sql immutable as $$
    select case when cardinality(p_texts) = 1 then to_jsonb(p_texts[1]) else to_jsonb(p_texts) end
$$;

-- The policy of a queue, its statements always a list; null when it has none.
create or replace function pgqs_data.policy_of(p_queue_id bigint) returns jsonb
language sql stable as $$
    select case when jsonb_typeof(p -> 'Statement') = 'object' then p || jsonb_build_object('Statement', jsonb_build_array(p -> 'Statement')) else p end
    from pgqs_data.queues s cross join lateral (select (s.attributes ->> 'Policy')::jsonb) as a(p)
    where s.queue_id = p_queue_id and p is not null
$$;

-- Keep a policy; one without statements is none.
create or replace function pgqs_data.store_policy(p_queue_id bigint, p_policy jsonb) returns void
language plpgsql as $$
declare
    v_before jsonb := coalesce((select s.attributes from pgqs_data.queues s where s.queue_id = p_queue_id), '{}');
begin
    perform pgqs_data.check_policy_limits(p_policy -> 'Statement', octet_length(p_policy::text));
    perform pgqs_data.store_attributes(p_queue_id, v_before - 'Policy'
        || case when p_policy -> 'Statement' = '[]' then '{}' else jsonb_build_object('Policy', p_policy::text) end);
end
$$;
