-- Refuse a database whose tables a newer script has changed: the functions of this one don't know their new form.
do $$
declare
    v_unknown text;
begin
    select string_agg(format('%s_%s', to_char(m.number, 'FM0000'), m.name), ', ' order by m.number) into v_unknown
    from penstock_data.migrations m
    where m.number > nullif(current_setting('penstock.newest_migration', true), '')::int;
    if v_unknown is not null then
        raise exception 'this database has migrations that this script does not know: %', v_unknown
            using errcode = 'PS012', hint = 'Install with the scripts of the newer release.';
    end if;
end
$$;
