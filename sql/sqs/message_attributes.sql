-- The MD5 of message attributes: of each in the order of their names the name, the type, a byte for the kind of value
-- and the value, each but the kind with its length before it.
create or replace function pgqs_data.attributes_md5(p_attributes jsonb) returns text
language plpgsql immutable as $$
begin
    return (
        select md5(string_agg(
            int4send(octet_length(a.name)) || a.name
            || int4send(octet_length(a.type)) || a.type
            || case when a.binary then '\x02'::bytea else '\x01'::bytea end
            || int4send(octet_length(a.value)) || a.value,
            '' order by a.key collate "C"))
        from (
            select e.key, convert_to(e.key, 'UTF8') as name, convert_to(e.value ->> 'DataType', 'UTF8') as type,
                e.value ->> 'DataType' like 'Binary%' as binary,
                case when e.value ->> 'DataType' like 'Binary%' then decode(e.value ->> 'BinaryValue', 'base64')
                    else convert_to(e.value ->> 'StringValue', 'UTF8') end as value
            from jsonb_each(p_attributes) e
        ) a);
end
$$;

-- How many bytes message attributes add to their message: names, types and values.
create or replace function pgqs_data.attributes_size(p_attributes jsonb) returns int
language plpgsql immutable as $$
begin
    return (
        select coalesce(sum(octet_length(e.key) + octet_length(e.value ->> 'DataType') + case when e.value ->> 'DataType' like 'Binary%'
            then octet_length(decode(e.value ->> 'BinaryValue', 'base64')) else octet_length(e.value ->> 'StringValue') end), 0)
        from jsonb_each(p_attributes) e);
end
$$;

-- The characters that SQS does not carry.
create or replace function pgqs_data.bad_characters() returns text
language sql immutable as $$ select '[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]' $$;

create or replace function pgqs_data.bad_character(p_text text, p_where text) returns jsonb
language sql stable as $$
    select pgqs_data.error('InvalidMessageContents', format(
        'Invalid binary character ''#x%s'' was found in %s, the set of allowed characters is #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF',
        upper(to_hex(ascii(substring(p_text from pgqs_data.bad_characters())))), p_where))
$$;

-- What is wrong with the name of a message attribute; null when nothing is.
create or replace function pgqs_data.attribute_name_fault(p_name text) returns text
language sql immutable as $$
    select case
        when p_name = '' then 'The request must contain non-empty message attribute name.'
        when char_length(p_name) > 256 then 'Length of message attribute name must be less than 256 bytes.'
        when p_name ~ '[\x01-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x9f]' then   -- letters may be of any script
            'Invalid non-alphanumeric character was found in the message attribute name. Can only include alphanumeric characters, hyphens, underscores, or dots.'
        when p_name ~* '^(aws|amazon)\.' then
            'Message attribute name can''t start with AWS. or Amazon., which are reserved.'
        when p_name like '.%' then 'Invalid message attribute name starting with character ''.'' was found.'
        when p_name like '%.' then 'Invalid message attribute name ending with character ''.'' was found.'
        when p_name like '%..%' then 'Message attribute name can not have successive ''.'' character.'
    end
$$;

-- Is this base64 of something?
create or replace function pgqs_data.is_base64(p_text text) returns boolean
language sql immutable as $$
    select length(p_text) % 4 = 0 and p_text ~ '^[A-Za-z0-9+/]+={0,2}$'
$$;

-- What is wrong with a message attribute; null when nothing is.  p_kind: user, or system.
create or replace function pgqs_data.attribute_fault(p_kind text, p_name text, p_value jsonb) returns jsonb
language plpgsql stable as $$
declare
    v_type  text := p_value ->> 'DataType';
    v_base  text := split_part(v_type, '.', 1);
    v_field text := case when v_base = 'Binary' then 'BinaryValue' else 'StringValue' end;
    v_fault text := pgqs_data.attribute_name_fault(p_name);
begin
    if v_fault is not null then
        null;
    elsif jsonb_typeof(p_value) <> 'object' or coalesce(v_type, '') = '' then
        v_fault := format('The message attribute ''%s'' must contain non-empty message attribute type.', p_name);
    elsif char_length(v_type) > 256 then
        v_fault := format('Length of message attribute ''%s'' type must be less than 256 bytes.', p_name);
    elsif v_base not in ('String', 'Number', 'Binary') or v_type ~ '[\x01-\x1f]' then
        v_fault := format('The message attribute ''%s'' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.', p_name);
    elsif jsonb_array_length(case when jsonb_typeof(p_value -> 'StringListValues') = 'array' then p_value -> 'StringListValues' else '[]' end) > 0
          or jsonb_array_length(case when jsonb_typeof(p_value -> 'BinaryListValues') = 'array' then p_value -> 'BinaryListValues' else '[]' end) > 0 then
        return pgqs_data.error('UnsupportedOperation', 'Message attribute list values in SendMessage operation are not supported.');
    elsif (p_value ->> (case when v_field = 'BinaryValue' then 'StringValue' else 'BinaryValue' end)) is not null then
        v_fault := format('The message attribute ''%s'' with type ''%s'' must use field ''%s''.', p_name, v_type, left(v_field, -5));
    elsif coalesce(p_value ->> v_field, '') = '' then
        v_fault := format('Message (%s) attribute ''%s'' must contain a non-empty value of type ''%s''.', p_kind, p_name, left(v_field, -5));
    elsif v_base = 'Number' and (char_length(p_value ->> v_field) > 400 or p_value ->> v_field !~ '^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$') then
        v_fault := format('Can''t cast the value of message (%s) attribute ''%s'' to a number.', p_kind, p_name);
    elsif v_base = 'Binary' and not pgqs_data.is_base64(p_value ->> v_field) then
        v_fault := format('The value of message (%s) attribute ''%s'' is not valid base64.', p_kind, p_name);
    elsif v_base <> 'Binary' and p_value ->> v_field ~ pgqs_data.bad_characters() then
        return pgqs_data.bad_character(p_value ->> v_field, format('the value of message attribute ''%s''', p_name));
    end if;
    return case when v_fault is not null then pgqs_data.error('InvalidParameterValueException', v_fault) end;
end
$$;

-- What is wrong with the message attributes of a message; null when nothing is.
create or replace function pgqs_data.attributes_fault(p_attributes jsonb) returns jsonb
language plpgsql stable as $$
declare
    v_count int;
    v_plain boolean;
begin
    if p_attributes is null or p_attributes = 'null' then
        return null;
    elsif jsonb_typeof(p_attributes) <> 'object' then
        return pgqs_data.invalid_value(left(p_attributes::text, 100), 'MessageAttributes', 'Must be a map.');
    end if;
    -- One look at what is usual, short texts; only the rest is examined one by one.
    select count(*), bool_and((
        e.key ~ '^[A-Za-z0-9_-]+$' and length(e.key) <= 256 and e.value ->> 'DataType' = 'String' and e.value ->> 'StringValue' <> ''
        and not e.value ?| '{BinaryValue,StringListValues,BinaryListValues}'
        and e.value ->> 'StringValue' !~ '[\x01-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]') is true)
    into v_count, v_plain
    from jsonb_each(p_attributes) e;
    if v_count > 10 then
        return pgqs_data.error('InvalidParameterValueException', format('Number of message attributes [%s] exceeds the allowed maximum [10].', v_count));
    elsif v_plain then
        return null;
    end if;
    return (
        select f.fault
        from jsonb_each(p_attributes) e cross join lateral pgqs_data.attribute_fault('user', e.key, e.value) as f(fault)
        where f.fault is not null limit 1);
end
$$;

-- What is wrong with the system attributes of a message; only AWSTraceHeader can be sent.
create or replace function pgqs_data.system_attributes_fault(p_attributes jsonb) returns jsonb
language plpgsql stable as $$
declare
    v_name text;
begin
    if p_attributes is null or p_attributes = 'null' then
        return null;
    elsif jsonb_typeof(p_attributes) <> 'object' then
        return pgqs_data.invalid_value(left(p_attributes::text, 100), 'MessageSystemAttributes', 'Must be a map.');
    end if;
    v_name := (select k from jsonb_object_keys(p_attributes) k where k <> 'AWSTraceHeader' limit 1);
    if v_name is not null then
        return pgqs_data.error('InvalidParameterValueException', format('Message system attribute name ''%s'' is invalid.', v_name));
    elsif p_attributes -> 'AWSTraceHeader' ->> 'DataType' is distinct from 'String' and p_attributes <> '{}' then
        return pgqs_data.error('InvalidParameterValueException', 'Message (system) attribute ''AWSTraceHeader'' must be of type ''String''.');
    elsif p_attributes <> '{}' then
        return pgqs_data.attribute_fault('system', 'AWSTraceHeader', p_attributes -> 'AWSTraceHeader');
    end if;
    return null;
end
$$;

-- Those message attributes that the filters of a receive name: exact, 'prefix.*', '.*' or 'All'.  Null when none is.
create or replace function pgqs_data.chosen_attributes(p_attributes jsonb, p_filters text[]) returns jsonb
language plpgsql immutable as $$
begin
    return case when p_filters && '{All,.*}' then nullif(p_attributes, '{}') else (
        select jsonb_object_agg(e.key, e.value)
        from jsonb_each(p_attributes) e
        where e.key = any (p_filters)
           or exists (select from unnest(p_filters) f where f like '%.*' and starts_with(e.key, left(f, -2)))) end;
end
$$;

-- The message attributes of a stored message: those sent through SQS, and the engine's other headers that can be one.
create or replace function pgqs_data.stored_attributes(p_headers jsonb) returns jsonb
language plpgsql immutable as $$
begin
    return coalesce(p_headers -> 'sqs' -> 'attributes', '{}') || coalesce((
        select jsonb_object_agg(e.key, jsonb_build_object('DataType', case jsonb_typeof(e.value) when 'number' then 'Number' else 'String' end,
            'StringValue', e.value #>> '{}'))
        from jsonb_each(p_headers - 'sqs') e
        where jsonb_typeof(e.value) in ('string', 'number') and e.value #>> '{}' <> '' and pgqs_data.attribute_name_fault(e.key) is null), '{}');
end
$$;
