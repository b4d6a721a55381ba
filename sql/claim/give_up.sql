-- Messages leave their claims undone, with one outcome for all.  Returns the ids whose claim the token still held.
create or replace function penstock_data.give_up(
    p_queue_name text, p_ids bigint[], p_token text, p_outcome text, p_delay interval, p_error text
) returns setof bigint
language plpgsql as $$
declare
    v_queue record;
    v_now   timestamptz;
    v_claim penstock_data.claims;
begin
    select * into v_queue from penstock_data.queue_named(p_queue_name);
    if v_queue.ready is not true then
        perform penstock_data.check_queue(p_queue_name);
    end if;
    v_now := clock_timestamp() + v_queue.clock_shift;
    for v_claim in select * from penstock_data.unclaim(v_queue.id, p_token, p_ids, v_now) loop
        perform penstock_data.put_back(v_claim, p_outcome, p_delay, left(p_error, 10000), v_now);
        return query select unnest(v_claim.message_ids);
    end loop;
end
$$;
