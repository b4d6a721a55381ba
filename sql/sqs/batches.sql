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

-- The result of a call with one entry, or its error.
create or replace function pgqs_data.only_result(p_results text[]) returns jsonb
language plpgsql as $$
declare
    v_result jsonb := p_results[1];
begin
    if v_result ? '__error' then
        perform pgqs_data.raise(v_result -> '__error');
    end if;
    return v_result;
end
$$;

-- Batches for one queue, all their good entries in one go; contexts as with pgqs_data.send_all.  Returns an answer for
-- each batch as JSON text, or {"__error": …}.
create or replace function pgqs_data.answer_batches(p_action text, p_queue pgqs_data.queue, p_requests jsonb[], p_contexts jsonb[]) returns text[]
language plpgsql as $$
declare
    v_opened  record;
    v_faults  jsonb[];
    v_results text[];
begin
    select * into v_opened from pgqs_data.open_batches(p_requests);
    if (v_opened.usual and (p_action <> 'SendMessageBatch' or v_opened.bodies < 100000 and not p_queue.fifo)) is not true then
        -- Something may be wrong with one of them: they are examined one by one, and the faulty ones left out.
        v_faults := array(
            select coalesce(f.fault, case when p_action = 'SendMessageBatch' then pgqs_data.send_batch_fault(p_queue, f.entries) end)
            from (
                select pgqs_data.entries_of(r) as entries, pgqs_data.batch_fault(pgqs_data.entries_of(r), p_action) as fault, place
                from unnest(p_requests) with ordinality as r(r, place)) f
            order by f.place);
        select array_agg(e.entry order by r.place, e.nth) as entries, array_agg(r.place::int order by r.place, e.nth) as owners into v_opened
        from unnest(p_requests, v_faults) with ordinality as r(request, fault, place)
        cross join lateral unnest(pgqs_data.entries_of(r.request)) with ordinality as e(entry, nth)
        where r.fault is null;
    end if;
    v_results := case
        when v_opened.entries is null then '{}'
        when p_action = 'SendMessageBatch' then pgqs_data.send_all(p_queue, v_opened.entries, case when cardinality(p_contexts) > 1
            then array(select p_contexts[o] from unnest(v_opened.owners) o) else p_contexts end)
        when p_action = 'DeleteMessageBatch' then
            pgqs_data.delete_all(p_queue, array(select coalesce(e ->> 'ReceiptHandle', '') from unnest(v_opened.entries) e))
        else pgqs_data.change_visibilities(p_queue, array(select coalesce(e ->> 'ReceiptHandle', '') from unnest(v_opened.entries) e),
            array(select e ->> 'VisibilityTimeout' from unnest(v_opened.entries) e)) end;
    return pgqs_data.batch_answers(cardinality(p_requests), v_faults, v_opened.entries, v_opened.owners, v_results);
end
$$;

-- The entries of all batches, each with the place of its batch; whether every batch is as usual (from one to ten
-- entries with proper and distinct ids); and how many bytes all bodies have, null when attributes count as well.
create or replace function pgqs_data.open_batches(p_requests jsonb[])
returns table (entries jsonb[], owners int[], usual boolean, bodies bigint)
language sql stable rows 1 as $$
    select array_agg(b.entry), array_agg(b.owner),
        count(*) filter (where b.nth = 1) = cardinality(p_requests) and max(b.nth) <= 10
            and count(distinct (b.owner || ' ' || b.id) collate "C") = count(*)
            -- A pattern with a number of repetitions costs ten times as much.
            and coalesce(bool_and(b.id ~ '^[A-Za-z0-9_-]+$' and length(b.id) <= 80), false),
        case when not bool_or(b.entry ? 'MessageAttributes') then sum(octet_length(b.entry ->> 'MessageBody')) end
    from (
        select e.entry, e.entry ->> 'Id' as id, r.owner::int, e.nth
        from unnest(p_requests) with ordinality as r(request, owner)
        cross join lateral jsonb_array_elements(case when jsonb_typeof(r.request -> 'Entries') = 'array' then r.request -> 'Entries' else '[]' end)
            with ordinality as e(entry, nth)
        offset 0) b
$$;

-- The answers to batches: what succeeded, and what failed with whose fault.  A result with "__error" has failed; a
-- batch with a fault has failed as a whole.
create or replace function pgqs_data.batch_answers(p_count int, p_faults jsonb[], p_entries jsonb[], p_owners int[], p_results text[]) returns text[]
language plpgsql as $$
declare
    v_answers text[];
begin
    if p_faults is null and '{"__error"' <> all (array(select left(r, 10) from unnest(p_results) r)) then
        select array_agg(b.answer order by b.owner) into v_answers
        from (
            select u.owner, '{"Successful":[' || string_agg('{"Id":' || (u.entry -> 'Id')::text
                || case when u.result = '{}' then '}' else ',' || substr(u.result, 2) end, ',' order by u.nth) || ']}' as answer
            from unnest(p_entries, p_results, p_owners) with ordinality as u(entry, result, owner, nth)
            group by u.owner) b;
        return v_answers;
    end if;
    select array_agg(coalesce(b.answer, jsonb_build_object('__error', p_faults[p.place]))::text order by p.place) into v_answers
    from generate_series(1, p_count) as p(place)
    left join (
        select u.owner, jsonb_strip_nulls(jsonb_build_object(
            'Successful', jsonb_agg(jsonb_build_object('Id', u.entry -> 'Id') || u.result order by u.nth) filter (where not u.result ? '__error'),
            'Failed', jsonb_agg(jsonb_build_object('Id', u.entry -> 'Id', 'SenderFault', true, 'Code', u.result -> '__error' -> 'query_code',
                'Message', u.result -> '__error' -> 'message') order by u.nth) filter (where u.result ? '__error'))) as answer
        from (
            select r.entry, r.result::jsonb, r.owner, r.nth
            from unnest(p_entries, p_results, p_owners) with ordinality as r(entry, result, owner, nth)) u
        group by u.owner
    ) b on b.owner = p.place;
    return v_answers;
end
$$;
