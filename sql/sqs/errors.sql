-- An error as a value: {"shape": …, "message": …, "query_code": …, "status": …}.
create or replace function pgqs_data.error(p_shape text, p_message text) returns jsonb
language sql stable as $$
    select jsonb_build_object('shape', p_shape, 'message', p_message, 'query_code', e.query_code, 'status', e.status)
    from pgqs.error_shapes e where e.shape = p_shape
$$;

-- Raise such an error.  Its SQLSTATE is PQ400; the detail is JSON for the one who has to answer on a wire.
create or replace function pgqs_data.raise(p_error jsonb) returns void
language plpgsql as $$
begin
    raise exception using errcode = 'PQ400', message = p_error ->> 'message', detail = (p_error - 'message')::text;
end
$$;

create or replace function pgqs_data.fail(p_shape text, p_message text) returns void
language plpgsql as $$
begin
    perform pgqs_data.raise(pgqs_data.error(p_shape, p_message));
end
$$;

-- The error that most rules end in.
create or replace function pgqs_data.invalid_value(p_value text, p_parameter text, p_reason text) returns jsonb
language sql stable as $$
    select pgqs_data.error('InvalidParameterValueException',
        format('Value %s for parameter %s is invalid. Reason: %s', p_value, p_parameter, p_reason))
$$;

-- Refuse a request without one of its parameters.
create or replace function pgqs_data.require(p_request jsonb, p_parameter text) returns void
language plpgsql as $$
begin
    if p_request -> p_parameter is null or p_request -> p_parameter = 'null' or p_request ->> p_parameter = '' then
        perform pgqs_data.fail('MissingRequiredParameterException', format('The request must contain the parameter %s.', p_parameter));
    end if;
end
$$;

-- A parameter that is a whole number, given as a number or as digits; null when it is absent.
create or replace function pgqs_data.integer_of(p_request jsonb, p_parameter text) returns bigint
language plpgsql immutable as $$
declare
    v_text text := p_request ->> p_parameter;
begin
    if v_text is null then
        return null;
    elsif v_text !~ '^-?\d{1,18}$' then
        perform pgqs_data.raise(pgqs_data.invalid_value(left(v_text, 100), p_parameter, 'Must be an integer.'));
    end if;
    return v_text::bigint;
end
$$;

-- The elements of a list parameter as texts; an empty array when it is absent.
create or replace function pgqs_data.texts_of(p_request jsonb, p_parameter text) returns text[]
language plpgsql immutable as $$
declare
    v_list jsonb := p_request -> p_parameter;
begin
    if v_list is null or v_list = 'null' then
        return '{}';
    elsif jsonb_typeof(v_list) <> 'array' then
        perform pgqs_data.raise(pgqs_data.invalid_value(left(v_list::text, 100), p_parameter, 'Must be a list.'));
    end if;
    return array(select e.value from jsonb_array_elements_text(v_list) with ordinality as e(value, place) order by e.place);
end
$$;

-- A map parameter; an empty object when it is absent.
create or replace function pgqs_data.map_of(p_request jsonb, p_parameter text) returns jsonb
language plpgsql immutable as $$
declare
    v_map jsonb := p_request -> p_parameter;
begin
    if v_map is null or v_map = 'null' then
        return '{}';
    elsif jsonb_typeof(v_map) <> 'object' then
        perform pgqs_data.raise(pgqs_data.invalid_value(left(v_map::text, 100), p_parameter, 'Must be a map.'));
    end if;
    return v_map;
end
$$;
