-- RemovePermission: the statement of this label leaves the queue's policy, and the policy goes with its last statement.
create or replace function pgqs_data.remove_permission(p_request jsonb, p_context jsonb) returns jsonb
language plpgsql as $$
declare
    v_queue  pgqs_data.queue := pgqs_data.queue_of(p_request, p_context);
    v_label  text := p_request ->> 'Label';
    v_policy jsonb;
begin
    perform pgqs_data.require(p_request, 'Label');
    perform pgqs_data.lock_settings(v_queue.engine_name);
    v_policy := pgqs_data.policy_of(v_queue.id);
    if not exists (select from jsonb_array_elements(v_policy -> 'Statement') s where s ->> 'Sid' = v_label) then
        perform pgqs_data.raise(pgqs_data.invalid_value(v_label, 'Label', 'can''t find label.'));
    end if;
    perform pgqs_data.store_policy(v_queue.id, v_policy || jsonb_build_object('Statement', coalesce((
        select jsonb_agg(s.value order by s.place) from jsonb_array_elements(v_policy -> 'Statement') with ordinality as s(value, place)
        where s.value ->> 'Sid' is distinct from v_label), '[]')));
    return '{}';
end
$$;
