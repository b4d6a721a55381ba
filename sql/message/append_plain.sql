-- Append messages that are nothing but payload and headers: publish_messages without its other arguments, for callers
-- inside the engine.  p_headers has one element for each payload, or a single one for all.  Returns the ids in order.
-- Errors: those of publish_messages.
create or replace function penstock_data.append_plain(p_topic_name text, p_payloads jsonb[], p_headers jsonb[]) returns bigint[]
language plpgsql as $$
declare
    v_topic record;
    v_ids   bigint[];
begin
    select * into v_topic from penstock_data.topic_named(p_topic_name);
    if v_topic.ready is not true then
        perform penstock_data.check_topic(p_topic_name);
    end if;
    if pg_column_size(p_payloads) + pg_column_size(p_headers) > v_topic.max_payload_bytes then
        -- Together they are too large; whether one alone is, this tells.
        perform penstock_data.check_messages(p_payloads, null, penstock_data.one_for_all('headers', p_headers, cardinality(p_payloads)),
            null, null, null, null, null, v_topic.max_payload_bytes, clock_timestamp() + v_topic.clock_shift);
    end if;
    with appended as (
        insert into penstock_data.messages (topic_id, published_at, segment, payload, headers)
        select v_topic.id, clock_timestamp() + v_topic.clock_shift, v_topic.segment, u.payload, p_headers[least(u.place, cardinality(p_headers))]
        from unnest(p_payloads) with ordinality as u(payload, place)
        returning id
    )
    select array_agg(a.id) into v_ids from appended a;
    if v_topic.awaited or v_topic.always <> '{}' then
        perform penstock_data.wake_topic(v_topic.id, v_topic.always, v_ids[cardinality(v_ids)]);
    end if;
    return v_ids;
end
$$;
