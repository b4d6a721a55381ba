-- SendMessage.
create or replace function pgqs_data.send_message(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
begin
    return pgqs_data.only_result(pgqs_data.send(pgqs_data.queue_of(p_request, p_context), array[p_request], array[p_context]));
end
$$;
