-- Give claimed messages back without counting the attempt.  Returns the ids whose claim the token still held.
-- Roles: consumer, admin
create or replace function penstock.release_messages(queue_name text, message_ids bigint[], token text) returns setof bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return query select * from penstock_data.give_up(queue_name, message_ids, token, 'released', '0', null);
end
$$;
comment on function penstock.release_messages(text, bigint[], text) is 'Give claimed messages back without counting the attempt.';

-- Give a claimed message back without counting the attempt.  False: the token no longer holds it.
-- Roles: consumer, admin
create or replace function penstock.release_message(queue_name text, message_id bigint, token text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from penstock.release_messages(queue_name, array[message_id], token));
end
$$;
comment on function penstock.release_message(text, bigint, text) is 'Give a claimed message back without counting the attempt.';
