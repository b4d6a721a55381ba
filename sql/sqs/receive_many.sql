-- ReceiveMessage for many: those who want the same share one claim, filled in their order.  FIFO queues are served one
-- by one, because a group must not be shared out.
create or replace function pgqs_data.receive_many(p_queue pgqs_data.queue, p_requests jsonb[]) returns text[]
language plpgsql as $$
declare
    v_first   jsonb := p_requests[1] - '{QueueUrl,MaxNumberOfMessages,WaitTimeSeconds}'::text[];
    v_counts  int[];
    v_answers text[] := array_fill('{}'::text, array[cardinality(p_requests)]);
    v_group   record;
    v_shares  text[];
begin
    if not p_queue.fifo then
        -- One look at what is usual: all want the same, and nothing is wrong with it.
        select case when bool_and((
                r - '{QueueUrl,MaxNumberOfMessages,WaitTimeSeconds}'::text[] = v_first
                and coalesce(r ->> 'MaxNumberOfMessages', '1') ~ '^(?:[1-9]|10)$' and coalesce(r ->> 'WaitTimeSeconds', '0') ~ '^(?:1?[0-9]|20)$'
                and coalesce(r ->> 'VisibilityTimeout', '0') ~ '^[0-9]{1,4}$' and not r ? 'ReceiveRequestAttemptId') is true)
            then array_agg(coalesce(r ->> 'MaxNumberOfMessages', '1')::int) end
        into v_counts from unnest(p_requests) r;
        if v_counts is not null then
            return pgqs_data.receive_together(p_queue, v_first, v_counts);
        end if;
    end if;
    for v_group in
        select r.alike, array_agg(r.place::int order by r.place) as places,
            case when bool_and(r.common) then array_agg(coalesce((r.request ->> 'MaxNumberOfMessages')::int, 1) order by r.place) end as counts
        from (
            select u.request, u.place, not p_queue.fifo and pgqs_data.receive_fault(p_queue, u.request) is null as common,
                u.request - '{QueueUrl,MaxNumberOfMessages,WaitTimeSeconds}'::text[] as alike
            from unnest(p_requests) with ordinality as u(request, place)) r
        group by r.alike, r.common order by min(r.place)
    loop
        if v_group.counts is null or cardinality(v_group.places) = 1 then
            v_shares := array(select pgqs_data.receive_for(p_queue, p_requests[p]) from unnest(v_group.places) p);
        else
            v_shares := pgqs_data.receive_together(p_queue, v_group.alike, v_group.counts);
        end if;
        for v_at in 1 .. cardinality(v_group.places) loop
            v_answers[v_group.places[v_at]] := v_shares[v_at];
        end loop;
    end loop;
    return v_answers;
end
$$;

-- One claim for several receives that want the same, but for how many.  Returns an answer for each.
create or replace function pgqs_data.receive_together(p_queue pgqs_data.queue, p_request jsonb, p_counts int[]) returns text[]
language plpgsql as $$
declare
    v_token   text := pgqs_data.new_token();
    v_seconds int := coalesce((p_request ->> 'VisibilityTimeout')::int, p_queue.visibility_timeout);
    v_total   int;
    v_starts  int[];        -- which message is the first of each share
    v_sizes   int[];
    v_answers text[];
begin
    if (p_queue.max_in_flight <= 1000 or random() < 0.01) and pgqs_data.is_over_limit(p_queue) then
        return array_fill(jsonb_build_object('__error', pgqs_data.over_limit())::text, array[cardinality(p_counts)]);
    end if;
    select sum(s.size), array_agg(s.start) into v_total, v_starts
    from (select u.size, 1 + sum(u.size) over (order by u.place) - u.size as start from unnest(p_counts) with ordinality as u(size, place)) s;
    if p_queue.max_receive_count is null and not p_request ?| '{AttributeNames,MessageSystemAttributeNames,MessageAttributeNames}' then
        select array_agg('{"Messages":[' || s.messages || ']}' order by s.share), array_agg(s.size order by s.share) into v_answers, v_sizes
        from (
            select width_bucket(c.ordinality::int, v_starts) as share, count(*)::int as size, string_agg(pgqs_data.shown(
                p_queue.system_id, p_queue.id, v_token, c.message_id, c.payload, c.headers, c.delivery_attempts), ',' order by c.ordinality) as messages
            from penstock.consume_messages_batch(p_queue.engine_name, v_token, v_seconds, v_total) with ordinality as c
            group by share) s;
    else
        select array_agg(jsonb_build_object('Messages', s.messages)::text order by s.share), array_agg(s.size order by s.share) into v_answers, v_sizes
        from (
            select width_bucket(m.nth::int, v_starts) as share, count(*)::int as size, jsonb_agg(m.message order by m.nth) as messages
            from jsonb_array_elements(pgqs_data.receive_with_care(p_queue, v_token, v_seconds, v_total, pgqs_data.wanted_names(p_request),
                pgqs_data.wanted_filters(p_request))) with ordinality as m(message, nth)
            group by share) s;
    end if;
    if cardinality(v_sizes) > 1 then
        perform penstock_data.part_claims(p_queue.id, v_token, v_sizes);
    end if;
    return coalesce(v_answers, '{}') || array_fill('{}'::text, array[cardinality(p_counts) - coalesce(cardinality(v_answers), 0)]);
end
$$;
