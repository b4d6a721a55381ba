"""migrate: what waited elsewhere waits here, once, and knows where it came from."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.errors import InvalidSetting
from penstock.spark.pipelines import migrate_kafka, migrate_pgmq, migrate_sqs, migrate_tasks
from penstock.tasks import NewTask, open_store
from tests.fixtures.patience import eventually_sync
from tests.sqs.running import running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pipelines.shop import Shop

PGMQ = """
    create schema pgmq;
    create table pgmq.q_mail (msg_id bigint primary key, read_ct int not null default 0,
        enqueued_at timestamptz not null default now(), vt timestamptz not null,
        message jsonb, headers jsonb);
    insert into pgmq.q_mail (msg_id, vt, message, headers) values
        (1, now() - interval '1 hour', '{"n": 1}', '{"h": "x"}'),
        (2, now() + interval '1 hour', '{"n": 2}', null)"""


def test_pgmq(shop: Shop):
    shop.db.execute(PGMQ)
    with pytest.raises(InvalidSetting, match=r"pgmq\.q_other is missing"):
        shop(migrate_pgmq, "other", state=shop.folder / "other")
    assert shop(migrate_pgmq, "mail", "letters").rows == 2
    assert shop(migrate_pgmq, "mail", "letters", delete=True).rows == 0
    first, second = shop.messages("letters")
    assert (first["headers"]["original_id"], first["headers"]["h"]) == (1, "x")
    assert second["headers"]["original_topic"] == "pgmq:mail"
    [(delayed,)] = shop.db.execute(
        "select count(*) from penstock.log where deliver_after > now() + interval '50 min'"
    )
    assert delayed == 1
    # A second migration, which deletes.
    shop(migrate_pgmq, "mail", "letters-2", delete=True, state=shop.folder / "deleting")
    assert shop.db.execute("select count(*) from pgmq.q_mail").fetchone() == (0,)
    assert shop.numbers("letters-2") == [1, 2]


def test_files_with_kafkas_columns(shop: Shop):
    common = {"topic": "t", "partition": 0, "timestamp": 1700000000000}
    records = [
        {
            **common,
            "offset": 5,
            "key": "a",
            "value": '{"n": 1}',
            "headers": [{"key": "h", "value": "x"}],
        },
        {**common, "offset": 6, "key": None, "value": "plain", "headers": []},
        {**common, "offset": 7, "key": "c", "value": None},
    ]
    (shop.folder / "k.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    for rows in (3, 0):
        assert shop(migrate_kafka, str(shop.folder / "k.jsonl"), "moved").rows == rows
    found = shop.messages("moved")
    assert [(each["key"], each["payload"]) for each in found] == [
        ("a", {"n": 1}),
        (None, "plain"),
        ("c", None),
    ]
    assert found[0]["headers"] == {
        "h": "x", "original_id": 5, "original_topic": "kafka:t", "original_partition": 0,
        "original_published_at": 1700000000000,
    }  # fmt: skip


def test_sqs_messages_that_come_again_are_published_once(shop: Shop, tmp_path: Path):
    with running(shop.url, tmp_path) as door:
        client = door.boto3()
        url = client.create_queue(QueueName="old")["QueueUrl"]
        for n in range(3):
            client.send_message(QueueUrl=url, MessageBody=json.dumps({"n": n}))
        # Nothing is deleted, and a second later all come again.
        lease = timedelta(seconds=1)
        assert shop(migrate_sqs, url, "moved", client=client, keep=True, lease=lease).rows == 3
        client.send_message(QueueUrl=url, MessageBody="plain text")

        def moved() -> bool:
            shop(migrate_sqs, url, "moved", client=client)
            return not _waiting(client, url)

        eventually_sync(moved)
    bodies = [each["payload"] for each in shop.messages("moved")]
    assert sorted(map(str, bodies)) == ["plain text", "{'n': 0}", "{'n': 1}", "{'n': 2}"]
    assert shop.messages("moved")[0]["headers"]["original_topic"] == "sqs"


def _waiting(client: Any, url: str) -> bool:
    """Is anything left in the queue, be it visible or not?"""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return any(int(count) for count in found.values())


async def test_open_tasks_become_messages(shop: Shop):
    store = open_store(shop.url)
    await store.create_tables()
    await store.open()
    try:
        await store.insert(NewTask("mail", b'{"n": 1}', tenant_id="acme", priority=30))
        await store.insert(NewTask("mail", b"\xff\x00", meta={"why": "binary"}))
        done = await store.insert(NewTask("mail", b'{"n": 3}'))
        await store.cancel(done, "not wanted")
    finally:
        await store.close()
    assert shop(migrate_tasks, shop.url, prefix="tasks.").rows == 2
    first, second = shop.messages("tasks.mail")
    assert (first["payload"], first["priority"], first["tenant_id"]) == ({"n": 1}, 10, "acme")
    assert (second["payload"], second["headers"]["why"]) == ({"base64": "/wA="}, "binary")


def test_a_message_that_cannot_be_published_is_named(shop: Shop):
    shop.db.execute(PGMQ.replace("'{\"n\": 2}'", "null"))
    assert isinstance(shop.db, psycopg.Connection)
    shop.db.execute(
        "update pgmq.q_mail set headers = jsonb_build_object('x-pgmq-group', repeat('k', 2000)) "
        "where msg_id = 1"
    )
    with pytest.raises(
        Exception, match="message 1 can't be published: key has more than 1024 bytes"
    ):
        shop(migrate_pgmq, "mail")
    assert shop.db.execute("select count(*) from penstock.log").fetchone() == (0,)
