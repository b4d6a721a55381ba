-- ListQueues: those of the caller's account and region, by name, in pages.
create or replace function pgqs_data.list_queues(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_account text := coalesce(p_context ->> 'account', '000000000000');
    v_region  text := coalesce(p_context ->> 'region', 'us-east-1');
    v_folder  text := pgqs.engine_queue(v_account, v_region, '');
    v_prefix  text := v_folder || coalesce(p_request ->> 'QueueNamePrefix', '');
    v_most    int := pgqs_data.page_size(p_request);
    v_after   text := pgqs_data.page_start(p_request);
    v_names   text[];
begin
    v_names := array(
        select substr(q.name, length(v_folder) + 1)
        from penstock_data.queues q
        where starts_with(q.name, v_prefix) and pgqs_data.is_valid_name(substr(q.name, length(v_folder) + 1))
          and (q.name not like '%.fifo' or q.ordering = 'fifo')
          and substr(q.name, length(v_folder) + 1) collate "C" > v_after
        order by q.name collate "C" limit v_most + 1);
    return pgqs_data.page('QueueUrls', v_names, v_most, v_account, v_region, p_request, p_context);
end
$$;

-- How many a page of a list holds.
create or replace function pgqs_data.page_size(p_request jsonb) returns int
language plpgsql as $$
declare
    v_most bigint := pgqs_data.integer_of(p_request, 'MaxResults');
begin
    if v_most not between 1 and 1000 then
        perform pgqs_data.raise(pgqs_data.invalid_value(v_most::text, 'MaxResults', 'Must be an integer from 1 to 1000.'));
    end if;
    return coalesce(v_most, 1000);
end
$$;

-- Where a page begins: behind the name in NextToken.
create or replace function pgqs_data.page_start(p_request jsonb) returns text
language plpgsql stable as $$
declare
    v_token text := p_request ->> 'NextToken';
begin
    if v_token is null then
        return '';
    elsif not pgqs_data.is_base64(v_token) then
        perform pgqs_data.raise(pgqs_data.invalid_value(left(v_token, 100), 'NextToken', 'It does not come from an earlier answer.'));
    end if;
    return encode(decode(v_token, 'base64'), 'escape');
end
$$;

-- A page of queue URLs, with the token of the next page when there is one.  NextToken is given only to those who asked
-- for pages.
create or replace function pgqs_data.page(
    p_key text, p_names text[], p_most int, p_account text, p_region text, p_request jsonb, p_context jsonb
) returns jsonb
language sql stable as $$
    select case when cardinality(p_names) = 0 then '{}' else jsonb_build_object(p_key, (
            select jsonb_agg(pgqs_data.queue_url(p_account, p_region, u.name, p_context) order by u.place)
            from unnest(p_names[:p_most]) with ordinality as u(name, place))) end
        || case when cardinality(p_names) > p_most and p_request ? 'MaxResults'
            then jsonb_build_object('NextToken', translate(encode(convert_to(p_names[p_most], 'UTF8'), 'base64'), E'\n', '')) else '{}' end
$$;
