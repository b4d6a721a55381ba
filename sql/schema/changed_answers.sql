-- Functions whose answer has other columns than in an earlier installation.  PostgreSQL does not replace them, so they
-- are dropped, and created anew below.
do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid::regprocedure
        from (values
            ('penstock.list_queues()', 'paused_at'),
            ('penstock.maintain()', 'error'),
            ('penstock.get_queue_statistics(text)', 'waiting_count'),
            ('penstock.queue_overview()', 'blocked_by'),
            ('penstock.queue_contents(text, bigint, bigint)', 'blocked_by'),
            ('penstock.browse_messages(text, bigint, int)', 'blocked_by'),
            ('penstock.find_messages(text, text, text, int, text, text, jsonb)', 'blocked_by'),
            ('penstock.inspect_message(text, bigint, int)', 'blocked_by'),
            ('penstock_data.count_queue(bigint)', 'waiting'),
            ('penstock_data.unread_some(bigint, bigint, int)', 'place'),
            ('penstock_data.fast_path(bigint, bigint, text, timestamptz, int)', 'awaited'),
            ('penstock_data.empty_messages(penstock_data.segments, timestamptz)', 'more')) as f(signature, column_name)
        join pg_proc p on p.oid = to_regprocedure(f.signature) and not f.column_name = any (coalesce(p.proargnames, '{}'))
        union all
        select p.oid::regprocedure
        from (values
            ('penstock_data.claim_with_care(text, text, int, int, bigint)'),
            ('penstock_data.claimed_rows(bigint, bigint[], int[], timestamptz)')) as f(signature)
        join pg_proc p on p.oid = to_regprocedure(f.signature) and p.prorettype <> 'penstock_data.claimed_message'::regtype
        union all
        select p.oid::regprocedure
        from pg_proc p
        where p.oid = to_regprocedure('penstock_data.await_claim_turn(text)') and p.prorettype <> 'text'::regtype
    loop
        execute format('drop function %s', v_function);
    end loop;
end
$$;
