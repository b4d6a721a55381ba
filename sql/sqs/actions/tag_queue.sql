-- TagQueue, UntagQueue, ListQueueTags.

-- Refuse tags that SQS would not take.
create or replace function pgqs_data.check_tags(p_tags jsonb) returns void
language plpgsql as $$
declare
    v_fault text := case
        when (select count(*) from jsonb_object_keys(p_tags)) > 50 then 'Too many tags added for queue; a queue can have at most 50.'
        when exists (select from jsonb_object_keys(p_tags) k where char_length(k) not between 1 and 128) then 'Tag keys must be between 1 and 128 characters in length.'
        when exists (select from jsonb_each_text(p_tags) t where t.value is null or char_length(t.value) > 256) then 'Tag values must be between 0 and 256 characters in length.'
        when exists (select from jsonb_object_keys(p_tags) k where k ~* '^aws:') then 'Tag keys can''t start with aws:.'
    end;
begin
    if v_fault is not null then
        perform pgqs_data.fail('InvalidParameterValueException', v_fault);
    end if;
end
$$;

create or replace function pgqs_data.tag_queue(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_tags  jsonb := pgqs_data.map_of(p_request, 'Tags');
begin
    perform pgqs_data.require(p_request, 'Tags');
    perform pgqs_data.check_tags(v_tags);
    perform pgqs_data.lock_settings(v_queue.engine_name);
    insert into pgqs_data.queues as s (queue_id, tags, modified_at) values (v_queue.id, v_tags, penstock_data.clock())
    on conflict (queue_id) do update set tags = s.tags || excluded.tags
    returning s.tags into v_tags;
    perform pgqs_data.check_tags(v_tags);
    return '{}';
end
$$;

create or replace function pgqs_data.untag_queue(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
begin
    perform pgqs_data.require(p_request, 'TagKeys');
    update pgqs_data.queues s set tags = s.tags - pgqs_data.texts_of(p_request, 'TagKeys') where s.queue_id = v_queue.id;
    return '{}';
end
$$;

create or replace function pgqs_data.list_queue_tags(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_tags  jsonb := (select s.tags from pgqs_data.queues s where s.queue_id = v_queue.id);
begin
    return case when coalesce(v_tags, '{}') = '{}' then '{}' else jsonb_build_object('Tags', v_tags) end;
end
$$;
