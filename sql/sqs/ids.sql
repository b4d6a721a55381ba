-- The MessageId of a message: a uuid made of its id, and of the installation so that two never have the same.
-- Functions like this, one expression over their arguments, become part of the statement that calls them.
create or replace function pgqs_data.message_uuid(p_system uuid, p_id bigint) returns text
language sql immutable as $$
    select overlay(left(p_system::text, 19) placing '8' from 15) || '8' || overlay(lpad(to_hex(p_id), 15, '0') placing '-' from 4 for 0)
$$;

-- Increasing, twenty digits.
create or replace function pgqs_data.sequence_number(p_id bigint) returns text
language sql immutable as $$
    select (10000000000000000000 + p_id)::text
$$;

-- What a consumer shows to delete a message: queue, message, attempt and the token of the claim.
create or replace function pgqs_data.receipt_handle(p_queue_id bigint, p_message_id bigint, p_attempt int, p_token text) returns text
language sql immutable as $$
    select p_queue_id::text || '-' || p_message_id::text || '-' || p_attempt::text || '-' || p_token
$$;

-- The message, the attempt and the token of a receipt handle; null when it is none, or one of another queue.
create or replace function pgqs_data.handle_parts(p_queue_id bigint, p_handle text) returns text[]
language sql immutable as $$
    select case when translate(p_handle, E' \t\r\n', '') ~ '^[0-9]{1,18}-[0-9]{1,18}-[0-9]{1,9}-[0-9a-f]{32}$'
        and split_part(translate(p_handle, E' \t\r\n', ''), '-', 1) = p_queue_id::text
        then (string_to_array(translate(p_handle, E' \t\r\n', ''), '-'))[2:4] end
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
