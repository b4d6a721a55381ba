-- Raise one of our errors; the hint is the cure listed for the code.
create or replace function penstock_data.fail(p_code text, p_message text) returns void
language plpgsql as $$
begin
    raise exception using
        errcode = p_code,
        message = p_message,
        hint = coalesce((select e.cure from penstock_data.error_codes e where e.code = p_code), 'See penstock.error_codes().');
end
$$;

-- Refuse a name that is empty, too long or unprintable.
create or replace function penstock_data.check_name(p_kind text, p_name text) returns void
language plpgsql as $$
begin
    if p_name is null or char_length(p_name) not between 1 and 200 or p_name ~ '[[:cntrl:]]' or btrim(p_name) = '' then
        perform penstock_data.fail('PS004', format('%s name %s is not valid', p_kind, coalesce(quote_literal(left(p_name, 60)), 'null')));
    end if;
end
$$;

-- Refuse a number that is missing or out of range.
create or replace function penstock_data.check_range(p_name text, p_value numeric, p_low numeric, p_high numeric) returns void
language plpgsql as $$
begin
    if p_value is null or p_value not between p_low and p_high then
        perform penstock_data.fail('PS005', format('%s must be between %s and %s, not %s', p_name, p_low, p_high, coalesce(p_value::text, 'null')));
    end if;
end
$$;

-- Refuse a duration that is negative or absurd.
create or replace function penstock_data.check_duration(p_name text, p_value interval, p_most interval) returns void
language plpgsql as $$
begin
    if p_value is null or p_value not between interval '0' and p_most then
        perform penstock_data.fail('PS005', format('%s must be between 0 and %s, not %s', p_name, p_most, coalesce(p_value::text, 'null')));
    end if;
end
$$;

-- Refuse a text that an index or a wire format could not carry.
create or replace function penstock_data.check_text(p_name text, p_value text, p_required boolean default false) returns void
language plpgsql as $$
begin
    if p_value is null and p_required or p_value = '' and p_required then
        perform penstock_data.fail('PS005', format('%s must not be empty', p_name));
    elsif octet_length(p_value) > 1024 then
        perform penstock_data.fail('PS007', format('%s has %s bytes, at most 1024 are allowed', p_name, octet_length(p_value)));
    end if;
end
$$;
