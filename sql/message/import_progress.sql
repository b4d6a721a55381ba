-- How many rows of a source (a file's digest, say) were imported into a topic so far; 0 when none.
-- Errors: PS001 unknown topic, PS005 no source, PS009 a topic reserved for others.
-- Roles: publisher, admin
create or replace function penstock.import_progress(source text, topic_name text) returns bigint
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform penstock_data.check_text('source', coalesce(import_progress.source, ''), true);
    perform penstock_data.check_topic(topic_name);
    return coalesce((
        select i.rows_done from penstock_data.imports i
        where i.source = import_progress.source and i.topic_id = penstock_data.topic_id(topic_name)), 0);
end
$$;
comment on function penstock.import_progress(text, text) is 'How many rows of a source were imported into a topic.';

-- Record that rows of a source were imported: from rows_before to rows_done.  Call it in the transaction that publishes
-- them: then a repeated import publishes no row twice.  Locks: the source's row, so a second import of it waits, and
-- then fails.
-- Errors: PS001, PS005 another session imported from the same source meanwhile, PS009.
-- Roles: publisher, admin
create or replace function penstock.note_import(source text, topic_name text, rows_before bigint, rows_done bigint) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_found bigint;
begin
    perform penstock_data.check_text('source', coalesce(note_import.source, ''), true);
    perform penstock_data.check_range('rows_done', note_import.rows_done, coalesce(note_import.rows_before, 0), 9223372036854775807);
    perform penstock_data.check_topic(topic_name);
    insert into penstock_data.imports (source, topic_id, rows_done, changed_at)
    values (note_import.source, penstock_data.topic_id(topic_name), 0, penstock_data.clock())
    on conflict do nothing;
    update penstock_data.imports i set rows_done = note_import.rows_done, changed_at = penstock_data.clock()
    where i.source = note_import.source and i.topic_id = penstock_data.topic_id(topic_name)
      and i.rows_done = coalesce(note_import.rows_before, 0)
    returning i.rows_done into v_found;
    if v_found is null then
        perform penstock_data.fail('PS005', format('source %L was imported by another session meanwhile; ask penstock.import_progress() and go on from there', note_import.source));
    end if;
end
$$;
comment on function penstock.note_import(text, text, bigint, bigint) is 'Note how far the import of a source has come.';
