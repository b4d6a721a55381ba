-- Views for monitoring, with the columns that users of PostgreMQ know.
create or replace view penstock.topics as
select t.id, t.name, t.created_at from penstock_data.topics t;
comment on view penstock.topics is 'All topics.';

create or replace view penstock.queues as
select q.id, q.name, q.topic_id, q.exclusive, q.max_delivery_attempts, k.until as keep_alive_until, q.created_at,
    q.ordering, q.retry_base, q.retry_cap, q.retention, q.filter, q.notify
from penstock_data.queues q left join penstock_data.keep_alives k on k.queue_id = q.id;
comment on view penstock.queues is 'All queues with their settings.';

create or replace view penstock.messages as
select m.id, m.topic_id, m.payload, m.published_at as publish_at, m.deliver_after, m.published_at as created_at,
    m.headers, m.key, m.priority, m.expires_at, m.correlation_id, m.tenant_id, m.dedupe_key
from penstock_data.messages m join penstock_data.topics t on t.id = m.topic_id;
comment on view penstock.messages is 'The log: every message that is still stored.';

-- id is the message's; a row is named by queue_id and message_id.
create or replace view penstock.queue_messages as
select p.message_id as id, q.id as queue_id, p.message_id, p.status, p.vt, p.consumer_token, p.delivery_attempts,
    p.created_at, p.completed_at
from penstock_data.queues q cross join lateral penstock_data.queue_messages(q.id) p;
comment on view penstock.queue_messages is 'Every message of every queue with its status; completed rows can be deleted.';

create or replace trigger delete_queue_message instead of delete on penstock.queue_messages
for each row execute function penstock_data.delete_queue_message();

create or replace view penstock.dead_letter_queue as
select d.id, q.name as queue_name, d.message_id, d.payload, d.delivery_attempts, d.last_error, d.moved_at,
    d.headers, d.key, d.priority, d.history, d.published_at, d.correlation_id, d.tenant_id
from penstock_data.dead_letters d join penstock_data.queues q on q.id = d.queue_id;
comment on view penstock.dead_letter_queue is 'Messages that used up their attempts.';

-- The log as streams and bulk readers see it.  A view and not a function, so that nothing is materialised on the way.
create or replace view penstock.log as
select m.xid, m.id, t.id as topic_id, t.name as topic, m.published_at, m.priority, m.deliver_after, m.expires_at, m.key,
    m.correlation_id, m.tenant_id, m.payload, m.headers
from penstock_data.messages m join penstock_data.topics t on t.id = m.topic_id
where m.segment > 0 and penstock_data.may_read(t.id);
-- Or a function in somebody's condition could look at rows before may_read has its say.
alter view penstock.log set (security_barrier = true);
comment on view penstock.log is 'The log of the topics that the caller may read: all for penstock_admin, for others those with a reader of theirs.';

create or replace view penstock.receipt_log as
select r.xid, r.queue_id, q.name as queue, q.topic_id, t.name as topic, u.message_id, coalesce(u.attempt, case when r.outcome = 'lapsed' then 0 else 1 end) as attempt,
    r.outcome, r.token, r.claimed_at, r.ended_at, r.error
from penstock_data.receipts r
join penstock_data.queues q on q.id = r.queue_id
join penstock_data.topics t on t.id = q.topic_id
cross join lateral unnest(r.message_ids, r.attempts) as u(message_id, attempt)
where penstock_data.may_read(t.id);
alter view penstock.receipt_log set (security_barrier = true);
comment on view penstock.receipt_log is 'History, one row per message and attempt, of the topics that the caller may read.';
