-- Every message of a queue with an id above after_id and up to through_id, and where it stands: waiting, blocked,
-- delayed, retrying, claimed or done, as message_state tells it.  Dead letters are in list_dlq_messages().  Each
-- message is told once.
-- visible_at: since or until when it is due, or when its claim ends.  blocked_by: what holds it up, and until when.
-- Errors: PS002 unknown queue, PS009 not permitted.
-- Roles: monitor, admin
create or replace function penstock.queue_contents(queue_name text, after_id bigint default 0, through_id bigint default null)
returns table (
    message_id bigint, state text, attempt int, priority int, key text, tenant_id text, visible_at timestamptz, token text,
    published_at timestamptz, claimed_at timestamptz, ended_at timestamptz, blocked_by bigint, blocked_until timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    v_id       bigint := penstock_data.watched_queue(queue_name);
    v_topic_id bigint := (select q.topic_id from penstock_data.queues q where q.id = v_id);
    v_last     bigint := coalesce(queue_contents.through_id, 9223372036854775807);
begin
    return query
    select p.message_id, p.state, p.attempt, m.priority, m.key, m.tenant_id, p.visible_at, p.token, m.published_at, p.claimed_at, p.ended_at,
        p.blocked_by, p.blocked_until
    from (
        select w.message_id, w.state, w.attempt, w.due_at as visible_at, null::text as token, null::timestamptz as claimed_at,
            null::timestamptz as ended_at, w.blocked_by, w.blocked_until
        from penstock_data.pending_messages(v_id, queue_contents.after_id, v_last, null) w
        union all
        select c.message_id, 'claimed', c.attempt, c.deadline, c.token, c.claimed_at, null, null, null from penstock_data.claimed_messages(v_id) c
        union all
        select d.message_id, 'done', d.attempt, null, d.token, d.claimed_at, d.ended_at, null, null from penstock_data.done_messages(v_id) d
    ) p
    left join penstock_data.messages m on m.topic_id = v_topic_id and m.id = p.message_id
    where p.message_id > queue_contents.after_id and p.message_id <= v_last;
end
$$;
comment on function penstock.queue_contents(text, bigint, bigint) is 'Every message of a queue and where it stands.';
