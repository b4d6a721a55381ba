-- Row types that the functions of the SQS door hand to each other.
do $$
begin
    if to_regtype('pgqs_data.queue') is null then
        -- A queue as the actions see it.
        create type pgqs_data.queue as (
            id                    bigint,
            topic_id              bigint,
            engine_name           text,
            topic_name            text,
            ordering              text,
            fifo                  boolean,
            account               text,
            region                text,
            name                  text,
            visibility_timeout    int,
            delay_seconds         int,
            maximum_message_size  int,
            receive_wait_seconds  int,
            content_based         boolean,
            dedupe_scope          text,
            redrive_target        text,
            max_receive_count     int
        );
    end if;
    if to_regtype('pgqs_data.message') is null then
        -- A message that was claimed, with the moment of its first claim.
        create type pgqs_data.message as (
            id            bigint,
            payload       jsonb,
            headers       jsonb,
            key           text,
            attempt       int,
            published_at  timestamptz,
            first_at      timestamptz,
            claimed_at    timestamptz
        );
    end if;
end
$$;
