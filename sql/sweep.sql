-- Drop the functions that were here before and that no script created again: other signatures of an earlier version.
do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid::regprocedure
        from pg_proc p join penstock_functions_before b on b.oid = p.oid and b.version = p.xmin::text
    loop
        execute format('drop routine %s', v_function);
    end loop;
end
$$;
