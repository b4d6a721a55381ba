-- Claim the next message.  As consume_messages_batch with a batch of one.
create or replace function penstock.consume_message(queue_name text, consumer_token text, vt_seconds int default 30)
returns table (
    message_id bigint, payload jsonb, headers jsonb, key text, priority int, delivery_attempts int, vt timestamptz,
    published_at timestamptz, correlation_id text, tenant_id text
)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
    select * from penstock.consume_messages_batch($1, $2, $3, 1)
$$;
comment on function penstock.consume_message(text, text, int) is 'Claim the next message of a queue for vt_seconds.';
