"""A state machine: boto3 does what it likes, and a model of a few lines says what may be seen."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

if TYPE_CHECKING:
    import psycopg

# Deadlines end in a five and time moves by tens, so that nothing hangs on a second more or less.
TIMEOUT = 105
DELAY = 55
_numbers = itertools.count(1)


@dataclass
class Message:
    """What the model knows of a message."""

    body: str
    group: str | None
    sent_at: int
    visible_at: float
    receives: int = 0
    handle: str = ""
    """The newest; on a FIFO queue the only one that is good."""


@dataclass
class Model:
    """A queue as SQS describes it."""

    now: float = 0.0
    messages: dict[str, Message] = field(default_factory=dict)

    def visible(self) -> dict[str, Message]:
        return {name: each for name, each in self.messages.items() if each.visible_at <= self.now}

    def deliverable(self) -> dict[str, Message]:
        """On a FIFO queue: nothing of a group while something of it is in flight.

        But what was made visible early comes again, unless something before it is in flight.
        """
        in_flight: dict[str | None, int] = {}
        for each in self.messages.values():
            if each.visible_at > self.now:
                first = in_flight.get(each.group, each.sent_at)
                in_flight[each.group] = min(first, each.sent_at)
        return {
            name: each
            for name, each in self.messages.items()
            if each.visible_at <= self.now
            and (
                each.group not in in_flight
                or (each.receives > 0 and each.sent_at < in_flight[each.group])
            )
        }


class Machine(RuleBasedStateMachine):
    """Rules for both kinds; FIFO adds groups and duplicates."""

    handles = Bundle("handles")

    def __init__(self, sqs: Any, db: psycopg.Connection[Any], *, fifo: bool) -> None:
        super().__init__()
        self.sqs, self.db, self.fifo = sqs, db, fifo
        self.model = Model()
        attributes = {"VisibilityTimeout": str(TIMEOUT)}
        name = f"m{next(_numbers)}"
        if self.fifo:
            name, attributes["FifoQueue"] = f"{name}.fifo", "true"
        self.url = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    def teardown(self) -> None:
        self.sqs.delete_queue(QueueUrl=self.url)

    @rule(
        count=st.integers(1, 4),
        group=st.sampled_from("abc"),
        delay=st.sampled_from([0, 0, 0, DELAY]),
    )
    def send(self, count: int, group: str, delay: int) -> None:
        entries: list[dict[str, Any]] = []
        for number in range(count):
            unique = str(next(_numbers))
            entry: dict[str, Any] = {"Id": str(number), "MessageBody": unique}
            if self.fifo:
                entry |= {"MessageGroupId": group, "MessageDeduplicationId": unique}
            else:
                entry["DelaySeconds"] = delay
            entries.append(entry)
        answer = self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries)
        assert "Failed" not in answer
        for entry, sent in zip(entries, answer["Successful"], strict=True):
            self.model.messages[sent["MessageId"]] = Message(
                entry["MessageBody"],
                entry.get("MessageGroupId"),
                int(entry["MessageBody"]),
                self.model.now + (0 if self.fifo else delay),
            )

    @precondition(lambda self: self.fifo and self.model.messages)
    @rule(choice=st.integers(0, 99))
    def send_a_duplicate(self, choice: int) -> None:
        names = list(self.model.messages)
        name = names[choice % len(names)]
        original = self.model.messages[name]
        again = self.sqs.send_message(
            QueueUrl=self.url,
            MessageBody="other",
            MessageGroupId=original.group,
            MessageDeduplicationId=original.body,
        )
        assert self.model.now > 250 or again["MessageId"] == name
        if again["MessageId"] != name:
            self.model.messages[again["MessageId"]] = Message(
                "other", original.group, next(_numbers), self.model.now
            )

    @rule(target=handles, count=st.integers(1, 10))
    def receive(self, count: int) -> Any:
        answer = self.sqs.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=count, AttributeNames=["All"]
        )
        got = answer.get("Messages", [])
        allowed = self.model.deliverable() if self.fifo else self.model.visible()
        assert len(got) <= count
        assert len(got) == len({message["MessageId"] for message in got})
        assert bool(got) == bool(allowed)
        if not self.fifo:
            # A standard queue of ours is not sloppy: it gives all that it has.
            assert len(got) == min(count, len(allowed))
        order: dict[str | None, int] = {}
        for message in got:
            assert message["MessageId"] in allowed, "it was not to be seen"
            known = allowed[message["MessageId"]]
            assert message["Body"] == known.body
            assert known.sent_at > order.get(known.group, 0) or not self.fifo
            order[known.group] = known.sent_at
            known.receives += 1
            known.handle = message["ReceiptHandle"]
            known.visible_at = self.model.now + TIMEOUT
            assert message["Attributes"]["ApproximateReceiveCount"] == str(known.receives)
        return multiple(*((message["MessageId"], message["ReceiptHandle"]) for message in got))

    def _holds(self, name: str, handle: str) -> bool:
        known = self.model.messages.get(name)
        if known is None or known.visible_at <= self.model.now:
            return False
        return known.handle == handle or not self.fifo

    @rule(held=consumes(handles))
    def delete(self, held: tuple[str, str]) -> None:
        """A FIFO queue minds who holds a message, a standard queue lets late ones have it."""
        name, handle = held
        gone = name not in self.model.messages
        if gone or not self.fifo or self._holds(name, handle):
            self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=handle)
            self.model.messages.pop(name, None)
        else:
            with pytest.raises(ClientError, match="has expired"):
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=handle)

    @rule(held=handles, seconds=st.sampled_from([0, 15, 505]))
    def change_visibility(self, held: tuple[str, str], seconds: int) -> None:
        name, handle = held
        if self._holds(name, handle) or self._may_hold_again(name, handle, seconds):
            self._hide(handle, seconds)
            if seconds or self._holds(name, handle):
                self.model.messages[name].visible_at = self.model.now + seconds
        else:
            with pytest.raises(ClientError):
                self._hide(handle, seconds)

    @rule(held=handles)
    def give_back_and_delete(self, held: tuple[str, str]) -> None:
        """As somebody who has not understood that it is no longer his."""
        self.change_visibility(held, 0)
        self.delete(held)

    def _may_hold_again(self, name: str, handle: str, seconds: int) -> bool:
        """In a standard queue: whoever had a message last, while nobody else has it."""
        known = self.model.messages.get(name)
        if known is None or self.fifo:
            return False
        return seconds == 0 or known.handle == handle

    def _hide(self, handle: str, seconds: int) -> None:
        self.sqs.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=handle, VisibilityTimeout=seconds
        )

    @rule(seconds=st.sampled_from([10, 50, 60, 110]))
    def time_passes(self, seconds: int) -> None:
        self.db.execute("select penstock.advance_clock(make_interval(secs => %s))", (seconds,))
        self.model.now += seconds

    @precondition(lambda self: len(self.model.messages) > 6)
    @rule()
    def purge(self) -> None:
        self.sqs.purge_queue(QueueUrl=self.url)
        self.model.messages.clear()

    @invariant()
    def every_message_is_counted(self) -> None:
        found = self.sqs.get_queue_attributes(
            QueueUrl=self.url,
            AttributeNames=[
                "ApproximateNumberOfMessages",
                "ApproximateNumberOfMessagesNotVisible",
                "ApproximateNumberOfMessagesDelayed",
            ],
        )["Attributes"]
        assert sum(map(int, found.values())) == len(self.model.messages)
