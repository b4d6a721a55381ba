-- The entries of a batch.
create or replace function pgqs_data.entries_of(p_request jsonb) returns jsonb[]
language plpgsql immutable as $$
begin
    if jsonb_typeof(p_request -> 'Entries') is distinct from 'array' then
        return '{}';
    end if;
    return array(select jsonb_array_elements(p_request -> 'Entries'));
end
$$;

-- What is wrong with a batch as a whole; null when nothing is: EmptyBatchRequest, TooManyEntriesInBatchRequest,
-- InvalidBatchEntryId, BatchEntryIdsNotDistinct.
create or replace function pgqs_data.batch_fault(p_entries jsonb[], p_action text) returns jsonb
language plpgsql stable as $$
declare
    v_ids   text[] := array(select e ->> 'Id' from unnest(p_entries) e);
    v_twice text;
begin
    if v_ids = '{}' then
        return pgqs_data.error('EmptyBatchRequest', format('There should be at least one %sRequestEntry in the request.', p_action));
    elsif cardinality(v_ids) > 10 then
        return pgqs_data.error('TooManyEntriesInBatchRequest',
            format('Maximum number of entries per request are 10. You have sent %s.', cardinality(v_ids)));
    elsif exists (select from unnest(v_ids) i where (i ~ '^[A-Za-z0-9_-]+$' and length(i) <= 80) is not true) then
        return pgqs_data.error('InvalidBatchEntryId',
            'A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.');
    end if;
    select i into v_twice from unnest(v_ids) i group by i having count(*) > 1 limit 1;
    return case when found then pgqs_data.error('BatchEntryIdsNotDistinct', format('Id %s repeated.', v_twice)) end;
end
$$;

-- The answer to a batch: what succeeded, and what failed with whose fault.  A result with "__error" has failed.
create or replace function pgqs_data.batch_answer(p_entries jsonb[], p_results jsonb[]) returns jsonb
language sql immutable as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'Successful', jsonb_agg(jsonb_build_object('Id', u.entry -> 'Id') || u.result order by u.place) filter (where not u.result ? '__error'),
        'Failed', jsonb_agg(jsonb_build_object('Id', u.entry -> 'Id', 'SenderFault', true, 'Code', u.result -> '__error' -> 'query_code',
            'Message', u.result -> '__error' -> 'message') order by u.place) filter (where u.result ? '__error')))
    from unnest(p_entries, p_results) with ordinality as u(entry, result, place)
$$;

-- The result of a call with one entry, or its error.
create or replace function pgqs_data.only_result(p_results jsonb[]) returns jsonb
language plpgsql as $$
begin
    if p_results[1] ? '__error' then
        perform pgqs_data.raise(p_results[1] -> '__error');
    end if;
    return p_results[1];
end
$$;

-- Batches for one queue, all their good entries in one go.  Returns an answer for each batch, or {"__error": …}.
create or replace function pgqs_data.batches(p_action text, p_queue pgqs_data.queue, p_requests jsonb[], p_contexts jsonb[]) returns jsonb[]
language plpgsql as $$
declare
    v_answers jsonb[] := '{}';
    v_sizes   int[] := '{}';            -- how many entries each batch brings; null: it is faulty
    v_all     jsonb[] := '{}';
    v_context jsonb[] := '{}';
    v_entries jsonb[];
    v_fault   jsonb;
    v_results jsonb[];
    v_from    int := 1;
begin
    for v_place in 1 .. cardinality(p_requests) loop
        v_entries := pgqs_data.entries_of(p_requests[v_place]);
        v_fault := pgqs_data.batch_fault(v_entries, p_action);
        if v_fault is null and p_action = 'SendMessageBatch' then
            v_fault := pgqs_data.send_batch_fault(p_queue, v_entries);
        end if;
        if v_fault is null then
            v_all := v_all || v_entries;
            v_context := v_context || array_fill(p_contexts[v_place], array[cardinality(v_entries)]);
        end if;
        v_sizes := v_sizes || case when v_fault is null then cardinality(v_entries) end;
        v_answers := v_answers || jsonb_build_object('__error', v_fault);
    end loop;
    v_results := case when v_all = '{}' then '{}' when p_action = 'SendMessageBatch' then pgqs_data.send(p_queue, v_all, v_context)
        when p_action = 'DeleteMessageBatch' then pgqs_data.delete(p_queue, array(select coalesce(e ->> 'ReceiptHandle', '') from unnest(v_all) e))
        else pgqs_data.change_visibility(p_queue, array(select coalesce(e ->> 'ReceiptHandle', '') from unnest(v_all) e),
            array(select e ->> 'VisibilityTimeout' from unnest(v_all) e)) end;
    for v_place in 1 .. cardinality(p_requests) loop
        if v_sizes[v_place] is not null then
            v_answers[v_place] := pgqs_data.batch_answer(v_all[v_from:v_from + v_sizes[v_place] - 1], v_results[v_from:v_from + v_sizes[v_place] - 1]);
            v_from := v_from + v_sizes[v_place];
        end if;
    end loop;
    return v_answers;
end
$$;
