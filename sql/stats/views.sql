-- Run a `create or replace view` unless the view is there and equal.  The statement locks even an equal view, so it
-- would wait for each transaction that has read it.  A temporary view of the same statement shows whether it is equal.
create or replace procedure penstock_data.replace_view(p_statement text)
language plpgsql as $$
declare
    v_beginning constant text := 'create or replace view (\S+)';
    v_view constant regclass := to_regclass(substring(p_statement from v_beginning));
    v_is_equal boolean := false;
begin
    if v_view is not null then
        execute regexp_replace(p_statement, v_beginning, 'create temporary view penstock_view');
        select pg_get_viewdef(o.oid) = pg_get_viewdef(n.oid) and o.reloptions is not distinct from n.reloptions
        into v_is_equal
        from pg_class o, pg_class n where o.oid = v_view and n.oid = to_regclass('pg_temp.penstock_view');
        drop view pg_temp.penstock_view;
    end if;
    if not v_is_equal then
        execute p_statement;
    end if;
end
$$;

-- Views for monitoring, with the columns that users of PostgreMQ know.
call penstock_data.replace_view($view$
create or replace view penstock.topics as
select t.id, t.name, t.created_at from penstock_data.topics t
$view$);
comment on view penstock.topics is 'All topics.';

call penstock_data.replace_view($view$
create or replace view penstock.queues as
select q.id, q.name, q.topic_id, q.exclusive, q.max_delivery_attempts, k.until as keep_alive_until, q.created_at,
    q.ordering, q.retry_base, q.retry_cap, q.retention, q.filter, q.notify
from penstock_data.queues q left join penstock_data.keep_alives k on k.queue_id = q.id
$view$);
comment on view penstock.queues is 'All queues with their settings.';

call penstock_data.replace_view($view$
create or replace view penstock.messages as
select m.id, m.topic_id, m.payload, m.published_at as publish_at, m.deliver_after, m.published_at as created_at,
    m.headers, m.key, m.priority, m.expires_at, m.correlation_id, m.tenant_id, m.dedupe_key
from penstock_data.messages m join penstock_data.topics t on t.id = m.topic_id
$view$);
comment on view penstock.messages is 'The log: every message that is still stored.';

-- id is the message's; a row is named by queue_id and message_id.
call penstock_data.replace_view($view$
create or replace view penstock.queue_messages as
select p.message_id as id, q.id as queue_id, p.message_id, p.status, p.vt, p.consumer_token, p.delivery_attempts,
    p.created_at, p.completed_at
from penstock_data.queues q cross join lateral penstock_data.queue_messages(q.id) p
$view$);
comment on view penstock.queue_messages is 'Every message of every queue with its status; completed rows can be deleted.';

do $$
begin
    if not exists (
        select from pg_trigger t where t.tgrelid = 'penstock.queue_messages'::regclass and t.tgname = 'delete_queue_message'
    ) then
        create trigger delete_queue_message instead of delete on penstock.queue_messages
        for each row execute function penstock_data.delete_queue_message();
    end if;
end
$$;

call penstock_data.replace_view($view$
create or replace view penstock.dead_letter_queue as
select d.id, q.name as queue_name, d.message_id, d.payload, d.delivery_attempts, d.last_error, d.moved_at,
    d.headers, d.key, d.priority, d.history, d.published_at, d.correlation_id, d.tenant_id
from penstock_data.dead_letters d join penstock_data.queues q on q.id = d.queue_id
$view$);
comment on view penstock.dead_letter_queue is 'Messages that used up their attempts.';

-- The log as streams and bulk readers see it.  A view and not a function, so that nothing is materialised on the way.
-- With a security barrier: else a function in a caller's condition could look at rows before may_read has decided.
call penstock_data.replace_view($view$
create or replace view penstock.log with (security_barrier = true) as
select m.xid, m.id, t.id as topic_id, t.name as topic, m.published_at, m.priority, m.deliver_after, m.expires_at, m.key,
    m.correlation_id, m.tenant_id, m.payload, m.headers
from penstock_data.messages m join penstock_data.topics t on t.id = m.topic_id
where m.segment > 0 and penstock_data.may_read(t.id)
$view$);
comment on view penstock.log is 'The log of the topics that the caller may read: all for penstock_admin, for others those with a reader of theirs.';

call penstock_data.replace_view($view$
create or replace view penstock.receipt_log with (security_barrier = true) as
select r.xid, r.queue_id, q.name as queue, q.topic_id, t.name as topic, u.message_id, coalesce(u.attempt, case when r.outcome = 'lapsed' then 0 else 1 end) as attempt,
    r.outcome, r.token, r.claimed_at, r.ended_at, r.error
from penstock_data.receipts r
join penstock_data.queues q on q.id = r.queue_id
join penstock_data.topics t on t.id = q.topic_id
cross join lateral unnest(r.message_ids, r.attempts) as u(message_id, attempt)
where penstock_data.may_read(t.id)
$view$);
comment on view penstock.receipt_log is 'History, one row per message and attempt, of the topics that the caller may read.';
