-- Dedupe keys seen within their window, and the message each one stands for.
create table if not exists penstock_data.dedupe_keys (
    topic_id    bigint not null,
    dedupe_key  text not null,
    message_id  bigint not null,
    until       timestamptz not null,
    primary key (topic_id, dedupe_key)
);
do $$
begin
    if to_regclass('penstock_data.dedupe_keys_until') is null then
        create index dedupe_keys_until on penstock_data.dedupe_keys (until);
    end if;
end
$$;
