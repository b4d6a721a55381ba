-- Register a consumer that is going to wait until this queue has a message.  Returns the channel to LISTEN on.
-- The order that misses no message: LISTEN, start_waiting, claim once more, then wait.  Publishers notify for the given
-- seconds, or until a claim with this token (without a token: any claim) finds something; repeat it as often as you
-- look in vain.  A transaction that had published before, and commits later, sends no notification.  Its id is below
-- any that is drawn (pg_current_xact_id) after this call has committed: until pg_snapshot_xmin(pg_current_snapshot())
-- is above that one, look now and then.
-- Roles: consumer, admin
create or replace function penstock.start_waiting(queue_name text, seconds int default 5, consumer_token text default null)
returns text
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue   record;
    v_now     timestamptz;
    v_channel text;
begin
    select * into v_queue from penstock_data.queue_named(queue_name);
    if v_queue.ready is not true then
        perform penstock_data.check_queue(queue_name);
    end if;
    perform penstock_data.check_range('seconds', seconds, 1, 3600);
    perform penstock_data.check_text('consumer_token', consumer_token, false);
    v_now := clock_timestamp() + v_queue.clock_shift;
    v_channel := penstock_data.channel('queue', queue_name);
    if v_queue.notify = 'waiting' then
        -- One registration serves all who wait with one token, so many idle consumers write one row per half lease.
        insert into penstock_data.waiting (topic_id, until, channel, queue_id, token)
        select v_queue.topic_id, v_now + make_interval(secs => seconds), v_channel, v_queue.id, consumer_token
        where not exists (
            select from penstock_data.waiting w
            where w.topic_id = v_queue.topic_id and w.queue_id = v_queue.id and w.token is not distinct from consumer_token
              and w.until > v_now + make_interval(secs => seconds / 2.0));
    end if;
    return v_channel;
end
$$;
comment on function penstock.start_waiting(text, int, text) is 'Register as waiting for a queue; returns the channel to LISTEN on.';

-- The channel on which a queue's consumers are woken.
-- Roles: consumer, admin
create or replace function penstock.queue_channel(queue_name text) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform penstock_data.check_name('queue', queue_name);
    return penstock_data.channel('queue', queue_name);
end
$$;
comment on function penstock.queue_channel(text) is 'The channel on which a queue''s consumers are woken.';
