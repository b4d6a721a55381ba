-- Tasks that move messages out of a dead-letter queue (StartMessageMoveTask).  pgqs.run_move_tasks() carries them on.
create table if not exists pgqs_data.move_tasks (
    id               uuid primary key default gen_random_uuid(),
    source_arn       text not null,
    destination_arn  text,                  -- null: each message goes back to where it came from
    rate             int,                   -- messages a second; null: as fast as it goes
    status           text not null default 'RUNNING' check (status in ('RUNNING', 'COMPLETED', 'CANCELLING', 'CANCELLED', 'FAILED')),
    failure_reason   text,
    to_move          bigint not null,
    moved            bigint not null default 0,
    started_at       timestamptz not null,
    seq              bigint generated always as identity
);
do $$
begin
    if to_regclass('pgqs_data.move_tasks_running') is null then
        create unique index move_tasks_running on pgqs_data.move_tasks (source_arn) where status in ('RUNNING', 'CANCELLING');
    end if;
    if to_regclass('pgqs_data.move_tasks_source') is null then
        create index move_tasks_source on pgqs_data.move_tasks (source_arn, seq);
    end if;
end
$$;
