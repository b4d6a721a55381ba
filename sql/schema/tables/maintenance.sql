-- The steps of housekeeping (maintenance/steps.sql): their order, how far each has come, and since when one fails.
-- The row of a step is locked while it is done, so that two sessions never do the same step at once.
create table if not exists penstock_data.maintenance (
    step           text        primary key,
    place          int         not null,                -- the order in which they are done
    apart          boolean     not null,                -- needs a transaction of its own, so maintain() leaves it out
    reached        bigint      not null default 0,      -- steps that go queue by queue: the last one of this round
    done_at        timestamptz not null default clock_timestamp(),     -- the last success, to the hour
    failing_since  timestamptz,                         -- null: it does not fail
    failed_at      timestamptz,
    failures       int         not null default 0,      -- since then
    marred         boolean     not null default false,  -- it failed for a queue earlier in this round
    code           text,                                -- SQLSTATE
    error          text
);

with steps (step, place, apart) as (values
    ('claims taken back', 1, true),
    ('exclusive queues deleted', 2, false),
    ('dedupe keys forgotten', 3, false),
    ('positions trimmed', 4, false),
    ('flags trimmed', 5, false),
    ('lanes trimmed', 6, true),
    ('registrations dropped', 7, false),
    ('stages swept', 8, false),
    ('messages moved', 9, true),
    ('messages lapsed', 10, true),
    ('kept messages dropped', 11, false),
    ('segments switched', 12, false),
    ('segments emptied', 13, false),
    ('segments dropped', 14, true),
    ('log full', 15, false),
    ('claim locks restored', 16, false)
), gone as (
    delete from penstock_data.maintenance m where m.step not in (select s.step from steps s)
), changed as (
    update penstock_data.maintenance m set place = s.place, apart = s.apart
    from steps s where s.step = m.step and (s.place, s.apart) <> (m.place, m.apart)
)
insert into penstock_data.maintenance (step, place, apart) select s.step, s.place, s.apart from steps s
on conflict do nothing;
