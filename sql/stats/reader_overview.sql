-- Every reader with its lag: messages that it has not committed, counted up to 10,001, which means "more than 10,000".
-- oldest_at: when the first of them was published.  Cheap however far a reader is behind.
-- Roles: monitor, admin
create or replace function penstock.reader_overview()
returns table (
    reader_name text, topic_name text, created_at timestamptz, committed_at timestamptz, lag int, oldest_at timestamptz
)
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
begin
    -- The settings above: every walk must follow an index to its limit, where the statistics of a young segment make
    -- the planner think that reading all of it is cheaper.  In PL/pgSQL, because its plan is kept: planning would cost
    -- more than running.
    return query
    select r.name, t.name, r.created_at, p.committed_at, l.lag::int, l.oldest
    from penstock_data.readers r
    join penstock_data.topics t on t.id = r.topic_id
    cross join lateral penstock_data.reader_position(r.id) p
    cross join lateral (
        select count(*) as lag, min(m.published_at) as oldest
        from (
            select m.published_at from (
                (select m.xid, m.id, m.published_at
                from unnest(penstock_data.open_xids(p.window_from) || penstock_data.open_xids(p.window_to)) as a(xid)
                cross join lateral (
                    select * from penstock_data.messages m
                    -- One xid as a range: docs/internals/windows.md, "Two scans".
                    where m.segment > 0 and m.topic_id = r.topic_id and m.xid between a.xid and a.xid order by m.xid, m.id limit 10001) m
                limit 10001)
                union
                -- A window used up: all that no snapshot of it sees.  One that is being read: all behind the last id.
                (select m.xid, m.id, m.published_at from penstock_data.messages m
                where p.last_id is null and m.segment > 0 and m.topic_id = r.topic_id and m.xid >= pg_snapshot_xmax(p.window_to)
                order by m.xid, m.id limit 10001)
                union
                (select m.xid, m.id, m.published_at from penstock_data.messages m
                where m.segment > 0 and m.topic_id = r.topic_id and m.id > p.last_id
                order by m.id limit 10001)
            ) m
            where (p.starts_at is null or m.published_at >= p.starts_at)
              and (not pg_visible_in_snapshot(m.xid, p.window_to)
                   or p.last_id is not null and not pg_visible_in_snapshot(m.xid, p.window_from) and m.id > p.last_id)
            limit 10001) m) l
    order by r.name;
end
$$;
comment on function penstock.reader_overview() is 'Every reader with its lag, counted up to 10,001.';
