-- Schedules that fired within the last two days, known by the dedupe keys that each fire leaves behind: how often, when
-- last, and the usual distance between two fires.  The 10,000 keys that are remembered longest are looked at.
-- Roles: monitor, admin
create or replace function penstock.list_schedules()
returns table (schedule_name text, topic_name text, fires bigint, last_fire_at timestamptz, usual_gap interval)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    with fires as (
        select t.name as topic, f.parts[1] as schedule, f.parts[2]::timestamptz as at
        -- The keys of fires are remembered longest, so they are at this end of the index.
        from (select d.* from penstock_data.dedupe_keys d order by d.until desc limit 10000) d
        join penstock_data.topics t on t.id = d.topic_id
        cross join lateral regexp_match(d.dedupe_key, '^schedule:(.*):(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00)$') as f(parts)
        where f.parts is not null
    ), gaps as (
        select f.*, f.at - lag(f.at) over (partition by f.topic, f.schedule order by f.at) as gap from fires f
    )
    select g.schedule, g.topic, count(*), max(g.at), percentile_disc(0.5) within group (order by g.gap)
    from gaps g group by g.schedule, g.topic order by g.schedule, g.topic
$$;
comment on function penstock.list_schedules() is 'Schedules that fired within the last two days.';
