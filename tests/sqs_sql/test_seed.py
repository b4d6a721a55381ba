"""The usage lines of pgqs, as its users know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg


SEND = """
SELECT pgqs.invoke('SendMessage', '{"QueueUrl": "<url>", "MessageBody": "Hello, world!"}');
"""
RECEIVE = """
SELECT pgqs.invoke('ReceiveMessage', '{"QueueUrl": "<url>", "MaxNumberOfMessages": 1}');
"""
DELETE = """
SELECT pgqs.invoke('DeleteMessage', '{"QueueUrl":"<url>", "ReceiptHandle": "<handle>"}');
"""


def test_the_lines_of_the_usage_page_work(db: psycopg.Connection[Any]) -> None:
    def run(statement: str) -> Any:
        row = db.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]

    created = run("""SELECT pgqs.invoke('CreateQueue', '{"QueueName": "my-queue"}');""")
    url = created["QueueUrl"]
    assert url.startswith("pgqs://pgqs.system:")
    assert url.endswith("/my-queue")
    found = run("""SELECT pgqs.invoke('GetQueueUrl', '{"QueueName": "my-queue"}');""")
    assert found == {"QueueUrl": url}
    sent = run(SEND.replace("<url>", url))
    (message,) = run(RECEIVE.replace("<url>", url))["Messages"]
    assert message["Body"] == "Hello, world!"
    assert message["MD5OfBody"] == "6cd3556deb0da54bca060b4c39479839"
    assert message["MessageId"] == sent["MessageId"]
    delete = DELETE.replace("<url>", url).replace("<handle>", message["ReceiptHandle"])
    assert run(delete) == {}
