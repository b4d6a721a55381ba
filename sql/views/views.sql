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
