-- The entries of a batch.  Errors: EmptyBatchRequest, TooManyEntriesInBatchRequest, InvalidBatchEntryId, BatchEntryIdsNotDistinct.
create or replace function pgqs_data.batch_entries(p_request jsonb, p_entry_name text) returns jsonb[]
language plpgsql as $$
declare
    v_entries jsonb[];
    v_twice   text;
begin
    if jsonb_typeof(p_request -> 'Entries') = 'array' then
        v_entries := array(select e.value from jsonb_array_elements(p_request -> 'Entries') with ordinality as e(value, place) order by e.place);
    end if;
    if coalesce(cardinality(v_entries), 0) = 0 then
        perform pgqs_data.fail('EmptyBatchRequest', format('There should be at least one %s in the request.', p_entry_name));
    elsif cardinality(v_entries) > 10 then
        perform pgqs_data.fail('TooManyEntriesInBatchRequest',
            format('Maximum number of entries per request are 10. You have sent %s.', cardinality(v_entries)));
    elsif exists (select from unnest(v_entries) e where (e ->> 'Id' ~ '^[A-Za-z0-9_-]{1,80}$') is not true) then
        perform pgqs_data.fail('InvalidBatchEntryId',
            'A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.');
    end if;
    select e ->> 'Id' into v_twice from unnest(v_entries) e group by 1 having count(*) > 1 limit 1;
    if found then
        perform pgqs_data.fail('BatchEntryIdsNotDistinct', format('Id %s repeated.', v_twice));
    end if;
    return v_entries;
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
