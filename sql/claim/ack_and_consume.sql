-- For consumers that loop: finish what was claimed and claim the next, in one call, one transaction and one commit.
-- In a fifo queue the key of a finished message is free once this commits, so the claim takes a message of another key.
-- Locks and errors: those of the two calls.

-- Finish one message and claim the next one.  Always one row: acked is false when the token no longer holds done_id,
-- and then nothing is changed for it; message_id is null when there is nothing to claim.  done_id null: claim only.
-- Roles: consumer, admin
create or replace function penstock.ack_and_consume(queue_name text, consumer_token text, done_id bigint, vt_seconds int default 30)
returns table (
    acked boolean, message_id bigint, payload jsonb, headers jsonb, key text, priority int, delivery_attempts int, vt timestamptz,
    published_at timestamptz, correlation_id text, tenant_id text
)
language plpgsql security definer rows 1
set search_path = pg_catalog, pg_temp
as $$
begin
    acked := done_id is not null and penstock.ack_message(queue_name, done_id, consumer_token);
    return query
    select acked, c.* from (select) one left join penstock.consume_message(queue_name, consumer_token, vt_seconds) c on true;
end
$$;
comment on function penstock.ack_and_consume(text, text, bigint, int) is
    'Finish a message and claim the next one, in one transaction.';

-- Finish messages and claim up to batch_size others.  First a row for each message that is finished, with its id as
-- acked_id and nothing else; then the claimed messages, as consume_messages_batch returns them, with acked_id null.
-- Roles: consumer, admin
create or replace function penstock.ack_and_consume_batch(
    queue_name text, consumer_token text, done_ids bigint[], vt_seconds int, batch_size int
) returns table (
    acked_id bigint, message_id bigint, payload jsonb, headers jsonb, key text, priority int, delivery_attempts int, vt timestamptz,
    published_at timestamptz, correlation_id text, tenant_id text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if done_ids <> '{}' then
        for acked_id in select a.id from penstock.ack_messages(queue_name, done_ids, consumer_token) as a(id) loop
            return next;
        end loop;
    end if;
    return query
    select null::bigint, c.* from penstock.consume_messages_batch(queue_name, consumer_token, vt_seconds, batch_size) c;
end
$$;
comment on function penstock.ack_and_consume_batch(text, text, bigint[], int, int) is
    'Finish messages and claim up to batch_size others, in one transaction.';
