-- The MessageId of a message: a uuid made of its id, and of the installation so that two never have the same.
-- Functions like this, one expression over their arguments, become part of the statement that calls them.
create or replace function pgqs_data.message_uuid(p_system uuid, p_id bigint) returns text
language sql immutable as $$
    select overlay(left(p_system::text, 19) placing '8' from 15) || '8' || substr(lpad(to_hex(p_id), 15, '0'), 1, 3)
        || '-' || substr(lpad(to_hex(p_id), 15, '0'), 4)
$$;

-- Increasing, twenty digits.
create or replace function pgqs_data.sequence_number(p_id bigint) returns text
language sql immutable as $$
    select (10000000000000000000 + p_id)::text
$$;

-- What a consumer shows to delete a message: queue, message, attempt and the token of the claim.
create or replace function pgqs_data.receipt_handle(p_queue_id bigint, p_message_id bigint, p_attempt int, p_token text) returns text
language sql stable as $$
    select translate(encode(convert_to(
        'penstock:' || p_queue_id::text || ':' || p_message_id::text || ':' || p_attempt::text || ':' || p_token, 'UTF8'), 'base64'), E'\n', '')
$$;

-- The message, the attempt and the token of a receipt handle; null when it is none, or one of another queue.
-- Taken apart by hand: a pattern with groups costs twenty times as much.
create or replace function pgqs_data.handle_parts(p_queue_id bigint, p_handle text) returns text[]
language plpgsql immutable as $$
declare
    v_handle text := translate(p_handle, E' \t\r\n', '');
    v_parts  text[];
begin
    if length(v_handle) % 4 = 0 and length(v_handle) <= 1024 and v_handle ~ '^[A-Za-z0-9+/]+={0,2}$' then
        v_parts := string_to_array(encode(decode(v_handle, 'base64'), 'escape'), ':');
        if v_parts[1] = 'penstock' and v_parts[2] = p_queue_id::text and cardinality(v_parts) = 5
           and ltrim(v_parts[3] || v_parts[4], '0123456789') = '' and length(v_parts[3]) between 1 and 18 and length(v_parts[4]) between 1 and 9
           and length(v_parts[5]) = 32 then
            return v_parts[3:5];
        end if;
    end if;
    return null;
end
$$;

create or replace function pgqs_data.bad_handle(p_handle text) returns jsonb
language sql stable as $$
    select pgqs_data.error('ReceiptHandleIsInvalid', format('The input receipt handle "%s" is not a valid receipt handle.', p_handle))
$$;

-- A moment as SQS prints it.
create or replace function pgqs_data.milliseconds(p_at timestamptz) returns text
language sql immutable as $$ select floor(extract(epoch from p_at) * 1000)::bigint::text $$;

create or replace function pgqs_data.seconds(p_at timestamptz) returns text
language sql immutable as $$ select floor(extract(epoch from p_at))::bigint::text $$;
