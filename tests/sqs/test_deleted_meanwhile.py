"""Changes of a queue that somebody is deleting: it does not exist any more, and so it is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.concurrency.sessions import Background, until, value
from tests.sqs import raw

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sqs.running import Running

CHANGES: dict[str, dict[str, Any]] = {
    "TagQueue": {"Tags": {"a": "b"}},
    "SetQueueAttributes": {"Attributes": {"DelaySeconds": "3"}},
    "AddPermission": {
        "Label": "in",
        "AWSAccountIds": ["111111111111"],
        "Actions": ["SendMessage"],
    },
    # The first message of a group turns the queue into a fair one.
    "SendMessage": {"MessageBody": "x", "MessageGroupId": "g"},
    "PurgeQueue": {},
    "DeleteQueue": {},
}


@pytest.mark.parametrize("action", CHANGES)
def test_the_queue_is_gone(
    door: Running, module_dsn: str, new_name: Callable[..., str], action: str
) -> None:
    name = new_name()
    raw.signed(door.url, "CreateQueue", {"QueueName": name}).send()
    request = raw.signed(door.url, action, {"QueueUrl": name, **CHANGES[action]})
    with psycopg.connect(module_dsn) as other, psycopg.connect(module_dsn) as observer:
        observer.autocommit = True
        other.execute("select pgqs.invoke('DeleteQueue', %s)", (json.dumps({"QueueUrl": name}),))
        answer = Background(request.send)
        until(lambda: value(observer, "select count(*) from pg_locks where not granted"))
        other.commit()
    found = answer.result()
    assert (found.status, found.code) == (400, "AWS.SimpleQueueService.NonExistentQueue")
