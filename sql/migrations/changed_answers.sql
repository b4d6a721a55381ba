-- One vocabulary for where a message is: functions that tell more columns than before are created anew.
do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid::regprocedure
        from (values
            ('penstock.get_queue_statistics(text)', 'waiting_count'),
            ('penstock.queue_overview()', 'blocked_by'),
            ('penstock.queue_contents(text, bigint, bigint)', 'blocked_by'),
            ('penstock.browse_messages(text, bigint, int)', 'blocked_by'),
            ('penstock.find_messages(text, text, text, int, text, text, jsonb)', 'blocked_by'),
            ('penstock.inspect_message(text, bigint, int)', 'blocked_by'),
            ('penstock_data.count_queue(bigint)', 'waiting'),
            ('penstock_data.unread_some(bigint, bigint, int)', 'place')) as f(signature, column_name)
        join pg_proc p on p.oid = to_regprocedure(f.signature) and not f.column_name = any (p.proargnames)
    loop
        execute format('drop function %s', v_function);
    end loop;
end
$$;
