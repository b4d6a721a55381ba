-- The MessageId of a message: a uuid made of its id, and of the installation so that two never have the same.
create or replace function pgqs_data.message_uuid(p_system uuid, p_id bigint) returns text
language sql immutable as $$
    select overlay(left(p_system::text, 19) placing '8' from 15) || '8' || substr(h, 2, 3) || '-' || substr(h, 5)
    from lpad(to_hex(p_id), 16, '0') h
$$;

-- Increasing, twenty digits.
create or replace function pgqs_data.sequence_number(p_id bigint) returns text
language sql immutable as $$
    select (10000000000000000000 + p_id)::text
$$;

-- What a consumer shows to delete a message: queue, message, attempt and the token of the claim.
create or replace function pgqs_data.receipt_handle(p_queue_id bigint, p_message_id bigint, p_attempt int, p_token text) returns text
language sql immutable as $$
    select translate(encode(convert_to(concat_ws(':', 'penstock', p_queue_id, p_message_id, p_attempt, p_token), 'UTF8'), 'base64'), E'\n', '')
$$;

-- The parts of a receipt handle; null when it is none, or one of another queue.
create or replace function pgqs_data.handle_parts(p_queue_id bigint, p_handle text) returns text[]
language sql immutable as $$
    select case when h ~ '^[A-Za-z0-9+/]+={0,2}$' and length(h) % 4 = 0 and length(h) <= 1024 then
        regexp_match(convert_from(decode(h, 'base64'), 'LATIN1'), '^penstock:' || p_queue_id || ':(\d{1,18}):(\d{1,9}):([0-9a-f]{32})$') end
    from regexp_replace(p_handle, '\s', '', 'g') h
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
