-- Offsets of streams (docs/internals/spark.md).  A point is {"snap", "next", "last"}: a snapshot, the id above which
-- all later messages lie, and the highest id that it can see; with its stamp "timeline" (and the run of the server) and
-- "lsn".  An offset is a point with the cluster it was taken in; inside a window that a limit has cut it names the
-- point of the window's end in "to" and how far it got in "id" (of receipts: "xid").  "topics" ({name: id}, of receipts
-- "queues") are those that it stands for, "parked" ({name: point}) those that were read up to there and then left.
-- "catch_up" ends a batch that reads one topic up to the offset's point, which all the others have reached: from
-- "from", up to "id"; with "done" it stands for that topic as well.
do $$
begin
    if to_regtype('penstock_data.log_window') is null then
        -- A piece of the log: messages that window_to sees and window_from does not, with after_id < id <= through_id.
        create type penstock_data.log_window as (
            window_from  pg_snapshot,
            window_to    pg_snapshot,
            from_id      bigint,
            after_id     bigint,
            through_id   bigint,
            since        timestamptz,
            floors       jsonb
        );
    end if;
end
$$;

-- Which cluster and which stamping of the log the transaction ids belong to.
create or replace function penstock_data.incarnation_name() returns text
language sql stable as $$
    select i.cluster || '/' || i.xmin::text from penstock_data.incarnation i
$$;

-- May the caller read a topic's log?  penstock_admin may read all; others the topics that have a reader for them.
-- Security definer, because a view runs its functions with the rights of the role that reads it.  Its cost makes the
-- planner ask once for each topic and not once for each message.
create or replace function penstock_data.may_read(p_topic_id bigint) returns boolean
language sql stable security definer cost 100000 set search_path = pg_catalog, pg_temp as $$
    select penstock_data.is_permitted('{}') or exists (
        select from penstock_data.readers r where r.topic_id = p_topic_id and penstock_data.is_permitted(r.consumers))
$$;

-- Refuse topics that are gone, or that the caller may not read.
create or replace function penstock_data.check_readable(p_topic_ids bigint[]) returns void
language plpgsql stable as $$
declare
    v_id   bigint;
    v_name text;
begin
    perform penstock_data.check_incarnation();
    if pg_is_in_recovery() then
        perform penstock_data.fail('PS011', 'windows cannot be opened on a standby');
    end if;
    foreach v_id in array coalesce(p_topic_ids, '{}') loop
        select t.name into v_name from penstock_data.topics t where t.id = v_id;
        if not found then
            perform penstock_data.fail('PS001', format('the topic with id %s was deleted', v_id));
        elsif not penstock_data.may_read(v_id) then
            perform penstock_data.fail('PS009', format('role %I may not read the log of topic %L: it needs penstock_admin, or penstock_consumer and a reader of the topic', penstock_data.caller(), v_name));
        end if;
    end loop;
end
$$;

-- Refuse what is no point, or lies in the future of this server.
create or replace function penstock_data.check_point(p_point jsonb) returns void
language plpgsql as $$
begin
    if jsonb_typeof(p_point -> 'snap') is distinct from 'string' then
        perform penstock_data.fail('PS005', 'an offset must be a JSON object with "cluster" and "snap", as a stream reports it');
    end if;
    -- Transactions at work may be newer than what the current snapshot knows of: a transaction id of our own decides.
    if pg_snapshot_xmax((p_point ->> 'snap')::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())
       and pg_snapshot_xmax((p_point ->> 'snap')::pg_snapshot) > penstock_data.fresh_xid() then
        perform penstock_data.fail('PS015', 'the offset lies in the future of this server');
    end if;
exception when invalid_text_representation then
    perform penstock_data.fail('PS005', format('%L is no snapshot', left(p_point ->> 'snap', 60)));
end
$$;

-- Refuse an offset that means nothing here.  p_stream_id: the stream that it comes from, 0 if none.
create or replace function penstock_data.check_offset(p_offset jsonb, p_stream_id bigint default 0) returns void
language plpgsql as $$
begin
    if jsonb_typeof(p_offset) is distinct from 'object' then
        perform penstock_data.fail('PS005', 'an offset must be a JSON object with "cluster" and "snap", as a stream reports it');
    end if;
    perform penstock_data.check_point(p_offset);
    if p_offset ->> 'cluster' is distinct from penstock_data.incarnation_name() then
        perform penstock_data.fail('PS015', format('the offset was taken in cluster %s, this is %s',
            coalesce(p_offset ->> 'cluster', 'unknown'), penstock_data.incarnation_name()));
    end if;
    if p_offset ? 'to' then
        perform penstock_data.check_point(p_offset -> 'to');
    end if;
    perform penstock_data.check_shape(p_offset);
    perform penstock_data.check_remembered(p_offset, p_stream_id);
    if p_offset ->> 'xid' !~ '^[0-9]{1,19}$' then
        perform penstock_data.fail('PS005', format('%L is no transaction id', left(p_offset ->> 'xid', 60)));
    end if;
end
$$;

-- The point that an offset stands for which is not to be gone beyond; null: none was given.
create or replace function penstock_data.target_point(p_target jsonb) returns jsonb
language plpgsql as $$
begin
    if p_target is not null then
        perform penstock_data.check_point(p_target);
    end if;
    return p_target - '{cluster,since,floors,topics,queues,parked,catch_up}'::text[];
end
$$;

-- The point where the window ends that a limit has cut, with its stamp, which such an offset bears; null: none is open.
create or replace function penstock_data.window_end(p_offset jsonb) returns jsonb
language sql immutable as $$
    select (p_offset -> 'to') || jsonb_strip_nulls(jsonb_build_object('timeline', p_offset -> 'timeline', 'lsn', p_offset -> 'lsn'))
$$;

-- Refuse an offset whose stamp or topics are of the wrong kind.
create or replace function penstock_data.check_shape(p_offset jsonb) returns void
language plpgsql stable as $$
begin
    perform (p_offset #>> '{catch_up,id}')::bigint, (p_offset #>> '{catch_up,xid}')::xid8, (p_offset #>> '{catch_up,of}')::bigint;
    perform penstock_data.stamp_of(p.point)
    from (select p_offset union all select p_offset #> '{catch_up,from}' union all
          select e.value from jsonb_each(case when jsonb_typeof(p_offset -> 'parked') = 'object' then p_offset -> 'parked' end) e) p(point);
    if p_offset ? 'lsn' <> p_offset ? 'timeline' or p_offset ->> 'timeline' !~ '^[0-9]+(/[0-9]+)?$' or exists (
        select from jsonb_each(p_offset) e
        where e.key in ('topics', 'queues', 'parked', 'catch_up') and jsonb_typeof(e.value) <> 'object'
    ) then
        perform penstock_data.fail('PS005', 'an offset must be a JSON object as a stream reports it');
    end if;
    perform penstock_data.check_point(e.value) from jsonb_each(p_offset -> 'parked') e;
    if p_offset ? 'catch_up' then
        perform penstock_data.check_point(p_offset #> '{catch_up,from}');
    end if;
exception when invalid_text_representation or numeric_value_out_of_range then
    perform penstock_data.fail('PS005', 'an offset must be a JSON object as a stream reports it');
end
$$;

-- What a list of an offset can name.
create or replace function penstock_data.members(p_list text) returns table (id bigint, name text, topic_id bigint)
language sql stable as $$
    select t.id, t.name, t.id from penstock_data.topics t where p_list = 'topics'
    union all
    select q.id, q.name, q.topic_id from penstock_data.queues q where p_list = 'queues'
$$;

-- The topics, or queues, that an offset stands for, as {name: id}, without those that were deleted.  An offset without
-- a list is of an earlier release, or a start: it stands for the topics that its group has read so far, else for those
-- that are read now.
create or replace function penstock_data.covered(p_list text, p_offset jsonb, p_ids bigint[], p_stream_id bigint) returns jsonb
language sql stable as $$
    select coalesce(jsonb_object_agg(m.name, m.id), '{}')
    from penstock_data.members(p_list) m
    where case
        when p_offset ? p_list then p_offset -> p_list ->> m.name = m.id::text
        when p_list = 'topics' and exists (select from penstock_data.stream_readers b where b.stream_id = p_stream_id) then exists (
            select from penstock_data.stream_readers b join penstock_data.readers r on r.id = b.reader_id
            where b.stream_id = p_stream_id and b.covered and r.topic_id = m.id)
        else m.id = any (p_ids) end
$$;

-- The ids in {name: id}.
create or replace function penstock_data.listed_ids(p_listed jsonb) returns bigint[]
language sql immutable as $$
    select array(select e.value::bigint from jsonb_each_text(p_listed) e order by 1)
$$;

-- Where something is read from that no offset stands for yet: where it was left, else from the beginning of the log.
-- What is gone by now was never its to read.
create or replace function penstock_data.catch_up_from(p_offset jsonb, p_name text, p_topic_id bigint) returns jsonb
language sql stable as $$
    select coalesce(
        p_offset -> 'parked' -> p_name,
        jsonb_build_object('snap', penstock_data.before_everything(), 'next', 0, 'last', 0, 'emptied',
            coalesce((select e.xid::text from penstock_data.emptied e where e.topic_id = p_topic_id), '0')))
$$;

-- Those of some topics, or queues, that the batch before an offset holds.
create or replace function penstock_data.batch_members(p_ids bigint[], p_end jsonb, p_list text) returns bigint[]
language sql immutable as $$
    select case
        when p_end ? 'catch_up' then array(select i from unnest(p_ids) i where i = (p_end #>> '{catch_up,of}')::bigint)
        when p_end ? p_list then array(select i from unnest(p_ids) i where i = any (penstock_data.listed_ids(p_end -> p_list)))
        else p_ids end
$$;

-- Refuse to go on from an offset behind which messages were removed from the log.
create or replace function penstock_data.check_kept(p_topic_ids bigint[], p_offset jsonb) returns void
language plpgsql stable as $$
declare
    v_name text := (
        select t.name from penstock_data.emptied e join penstock_data.topics t on t.id = e.topic_id
        where e.topic_id = any (p_topic_ids)
          and not pg_visible_in_snapshot(e.xid, (p_offset ->> 'snap')::pg_snapshot)
          and e.xid > coalesce(p_offset ->> 'emptied', '0')::xid8
        limit 1);
begin
    if v_name is not null then
        perform penstock_data.fail('PS016', format('messages of topic %L were removed from the log before this stream had read them', v_name));
    end if;
end
$$;

-- What is about to be emptied, topic by topic.  p_segment null: the whole log.  With the number in its text only that
-- segment is planned for.
create or replace function penstock_data.note_emptied(p_segment int, p_now timestamptz) returns void
language plpgsql as $$
begin
    execute format('
        insert into penstock_data.emptied as e (topic_id, xid, emptied_at)
        select t.id, m.xid, $1
        from penstock_data.topics t
        cross join lateral (
            select m.xid from penstock_data.messages m
            where m.topic_id = t.id %s order by m.xid desc limit 1) m
        on conflict (topic_id) do update set xid = greatest(e.xid, excluded.xid), emptied_at = excluded.emptied_at',
        'and m.segment = ' || p_segment) using p_now;
end
$$;
