"""Calls of one tenant on what belongs to another: every action, every way to name a queue."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg

from penstock.sqs.auth.access_keys import AccessKey, Role
from prove.attack.sqs_samples import REQUESTS
from prove.attack.wire import Line, Reply, as_bytes, form_of, form_request, json_request

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

OWNER = AccessKey("AKIAOWNER", "secret-owner", account="000000000000", name="olga")
OTHER = AccessKey("AKIAOTHER", "secret-other", account="222222222222", name="otto")
STRANGERS = (
    AccessKey("AKIAEVE", "secret-eve", account="111111111111", name="eve"),
    AccessKey("AKIAPIA", "secret-pia", account="111111111111", role=Role.PUBLISHER, name="pia"),
    # Of the owner's account, but for other queues.
    AccessKey("AKIANORA", "secret-nora", queues=("mine-*",), name="nora"),
)
KEYS = (OWNER, OTHER, *STRANGERS)
QUEUES = ("orders", "orders-dead", "ledger")
MARK = "only-the-owner-knows-this"
LINES = 16


class Trespass:
    """Sends foreign calls, and looks for the owner's mark in what comes back."""

    def __init__(self, url: str, luck: random.Random) -> None:
        self.url, self.luck = url, luck
        self.counts: Counter[str] = Counter()
        self.leaks: list[str] = []
        self.stolen: dict[str, str] = {}

    async def furnish(self) -> None:
        """Queues of two owners with marked messages and tags, and a stranger's of the same name."""
        line = Line(self.url)
        for key in (OWNER, OTHER):
            for name in QUEUES:
                for action, request in _furniture(name):
                    reply = await line.ask(self._json(action, request, key))
                    assert reply.status == 200, reply
        await self._handles(line)
        line.close()

    async def _handles(self, line: Line) -> None:
        """What a stranger might have got hold of: a receipt handle, the handle of a long task."""
        redrive = {"deadLetterTargetArn": _arn(OWNER, "moving-dead"), "maxReceiveCount": "1"}
        entries = [{"Id": str(number), "MessageBody": MARK} for number in range(10)]
        batch = {"QueueUrl": "moving-dead", "Entries": entries}
        source = {"SourceArn": _arn(OWNER, "moving-dead"), "MaxNumberOfMessagesPerSecond": 1}
        attributes = {"RedrivePolicy": json.dumps(redrive)}
        for action, request in (
            ("CreateQueue", {"QueueName": "moving-dead"}),
            ("CreateQueue", {"QueueName": "moving", "Attributes": attributes}),
            *[("SendMessageBatch", batch)] * 60,
            ("ReceiveMessage", {"QueueUrl": "orders", "VisibilityTimeout": 43200}),
            ("StartMessageMoveTask", {**source, "DestinationArn": _arn(OWNER, "moving")}),
        ):
            reply = await line.ask(self._json(action, request, OWNER))
            assert reply.status == 200, reply
            answer = json.loads(reply.body or b"{}")
            found = (answer.get("Messages") or [answer])[0]
            self.stolen |= _known(found, {"ReceiptHandle": 1, "TaskHandle": 1})

    async def trespass(self, count: int) -> None:
        source = self._calls(count)
        await asyncio.gather(*(self._drain(source) for _ in range(LINES)))

    def _calls(self, count: int) -> Iterator[tuple[str, bool, bytes]]:
        """Who does what; whether any success is a leak; and the request."""
        actions = sorted(REQUESTS)
        for _ in range(count):
            action = self.luck.choice(actions)
            key = self.luck.choice(STRANGERS)
            owner = OWNER if key.account == OWNER.account else self.luck.choice((OWNER, OTHER))
            request, plain = self._aimed(action, key, owner, self.luck.choice(QUEUES))
            name = f"{key.name} {action}"
            if self.luck.random() < 0.3:
                yield name, plain, as_bytes(form_request(self.url, form_of(action, request), key))
            else:
                yield name, plain, self._json(action, request, key)

    def _aimed(
        self, action: str, key: AccessKey, owner: AccessKey, queue: str
    ) -> tuple[dict[str, Any], bool]:
        """A request on the owner's queue, and whether it can't mean one of the caller's own."""
        aimed = {**REQUESTS[action], **_known(self.stolen, REQUESTS[action])}
        plain = True
        if "QueueUrl" in aimed:
            plain = self.luck.random() < 0.5
            ways = self._plain(owner, queue) if plain else self._ambiguous(key, owner, queue)
            aimed["QueueUrl"] = self.luck.choice(ways)
        if action == "CreateQueue":
            redrive = {"deadLetterTargetArn": _arn(owner, queue), "maxReceiveCount": "1"}
            made = f"mine-{self.luck.randrange(50)}"
            attributes = {"RedrivePolicy": json.dumps(redrive)}
            aimed = {"QueueName": made, "Attributes": attributes}
            # Within one account a dead-letter queue is no stranger's.
            plain = key.account != owner.account
        elif "QueueName" in aimed:
            aimed |= {"QueueName": queue, "QueueOwnerAWSAccountId": owner.account}
        if action == "SetQueueAttributes":
            aimed["Attributes"] = {"DelaySeconds": "7"}
        if action == "StartMessageMoveTask":
            arns = [_arn(owner, queue), _arn(key, queue)]
            aimed |= {"SourceArn": self.luck.choice(arns), "DestinationArn": _arn(owner, queue)}
        elif "SourceArn" in aimed:
            aimed["SourceArn"] = _arn(owner, queue)
        return aimed, plain

    def _plain(self, owner: AccessKey, queue: str) -> list[str]:
        return [
            f"{self.url}/{owner.account}/{queue}",
            f"/{owner.account}/{queue}",
            f"{self.url}/queue/us-east-1/{owner.account}/{queue}",
            f"http://sqs.us-east-1.h/{owner.account}/{queue}",
            f"{self.url}/111111111111/../{owner.account}/{queue}",
            f"{self.url}/{owner.account}/{queue}?x=/111111111111/{queue}",
            f"x/y/us-east-1/{owner.account}/{queue}",
        ]

    def _ambiguous(self, key: AccessKey, owner: AccessKey, queue: str) -> list[str]:
        """Addresses that one reader may take for the caller's queue, another for the owner's."""
        mine, theirs = f"{key.account}/{queue}", f"{owner.account}/{queue}"
        return [
            f"{self.url}/{mine}#/{theirs}",
            f"{self.url}/{mine}%23/{theirs}",
            f"{self.url}/{mine}?/{theirs}",
            f"{self.url}/{mine}%3f/{theirs}",
            f"{self.url}/{theirs}/../../{mine}",
            f"{self.url}/{mine}%2f{owner.account}%2f{queue}",
            f"{self.url}/{owner.account}%2f{queue}",
            f"{self.url}/{key.account}/{owner.account}%2fus-east-1%2f{queue}",
            f"{self.url}/{mine}//",
            f"{self.url}#/{theirs}",
            f"{theirs}@{self.url}/{mine}",
            f"{self.url}/{mine}\n/{theirs}",
            f"{self.url}/{mine};/{theirs}",
            f"//{theirs}//{mine}",
        ]

    async def _drain(self, source: Iterator[tuple[str, bool, bytes]]) -> None:
        line = Line(self.url)
        for name, plain, data in source:
            self._note(name, plain, await line.ask(data))
        line.close()

    def _note(self, name: str, plain: bool, reply: Reply) -> None:  # noqa: FBT001
        self.counts["calls"] += 1
        self.counts[f"answered {reply.status}"] += 1
        if MARK.encode() in reply.body:
            self.leaks.append(f"{name} was shown the owner's mark: {reply.body[:200]!r}")
        elif plain and reply.status == 200 and not self._is_harmless(name, reply):
            self.leaks.append(f"{name} was answered: {reply.body[:200]!r}")

    def _is_harmless(self, name: str, reply: Reply) -> bool:
        """A list of one's own queues."""
        who, action = name.split(" ")
        foreign = {owner.account for owner in (OWNER, OTHER)} - {_account(who)}
        return action == "ListQueues" and not any(
            f"/{account}/".encode() in reply.body for account in foreign
        )

    def _json(self, action: str, request: dict[str, Any], key: AccessKey) -> bytes:
        return as_bytes(json_request(self.url, action, json.dumps(request).encode(), key))


def _arn(key: AccessKey, queue: str) -> str:
    return f"arn:aws:sqs:us-east-1:{key.account}:{queue}"


def _known(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name in wanted}


def _account(name: str) -> str:
    return next(key.account for key in KEYS if key.name == name)


def _furniture(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("CreateQueue", {"QueueName": name}),
        ("TagQueue", {"QueueUrl": name, "Tags": {"mark": MARK}}),
        ("SendMessage", {"QueueUrl": name, "MessageBody": MARK}),
    ]


def holdings(dsn: str) -> list[tuple[Any, ...]]:
    """All that the owners have: queues with their attributes, tags, messages and tasks."""
    with psycopg.connect(dsn, autocommit=True) as db:
        queues = db.execute(
            "select q.name, s.attributes::text, s.tags::text, n.pending_count, n.processing_count,"
            " n.scheduled_count, n.dead_count, n.total_count"
            " from penstock.queues q left join pgqs_data.queues s on s.queue_id = q.id,"
            " penstock.get_queue_statistics(q.name) n"
            " where q.name !~ '^(111111111111/|mine-|moving)' order by q.name"
        ).fetchall()
        tasks = db.execute(
            "select source_arn, destination_arn, status = 'CANCELLED' from pgqs_data.move_tasks"
        ).fetchall()
    return [*queues, *tasks]
