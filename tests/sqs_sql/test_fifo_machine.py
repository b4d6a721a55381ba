"""FIFO queues against a model: any order of sending, receiving, deleting, hiding and waiting.

The model knows what each group may give: its lowest unfinished messages up to the first that is in
flight.  A receive must give runs of whole groups, as many messages as there are and fit.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.fixtures import clock
from tests.fixtures.maintenance import maintain
from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    import psycopg

    Session = psycopg.Connection[Any]

_names = itertools.count(1)
GROUPS = st.sampled_from("ab")
# Deadlines end in a five and time moves by tens, so that nothing hangs on milliseconds.
SECONDS = st.sampled_from([0, 5, 25, 65])


@dataclass
class Message:
    body: str
    visible_at: int = 0
    handle: str | None = None
    receives: int = 0


@dataclass
class Model:
    now: int = 0
    groups: dict[str, list[Message]] = field(default_factory=dict)

    def given(self, group: str) -> list[Message]:
        """What a group gives now."""
        messages = self.groups.get(group, [])
        return list(itertools.takewhile(lambda message: message.visible_at <= self.now, messages))

    def find(self, body: str) -> Message:
        return next(message for message in self.groups[body[0]] if message.body == body)

    def in_flight(self) -> list[Message]:
        return [
            message
            for messages in self.groups.values()
            for message in messages
            if message.visible_at > self.now
        ]


class Machine(RuleBasedStateMachine):
    db: Session

    def __init__(self) -> None:
        super().__init__()
        self.sqs = Sqs(self.db)
        self.queue = self.sqs.create(f"q{next(_names)}.fifo")
        self.model = Model()
        self.numbers = itertools.count(1)

    @initialize(groups=st.lists(GROUPS, min_size=4, max_size=8))
    def begin(self, groups: list[str]) -> None:
        self.send(groups)

    @rule(groups=st.lists(GROUPS, min_size=1, max_size=3))
    def send(self, groups: list[str]) -> None:
        for group in groups:
            body = f"{group}{next(self.numbers)}"
            self.sqs.post(group, body, queue=self.queue)
            self.model.groups.setdefault(group, []).append(Message(body))

    @rule(count=st.integers(1, 5), seconds=SECONDS)
    def receive(self, count: int, seconds: int) -> None:
        expected = {group: self.model.given(group) for group in self.model.groups}
        found = self.sqs.receive(
            self.queue, count, VisibilityTimeout=seconds, AttributeNames=["All"]
        )

        runs = [
            (group, list(run))
            for group, run in itertools.groupby(found, lambda message: message["Body"][0])
        ]
        assert len({group for group, _ in runs}) == len(runs), "a group comes in one run"
        for place, (group, run) in enumerate(runs):
            bodies = [message["Body"] for message in run]
            possible = [message.body for message in expected[group]]
            assert bodies == possible[: len(bodies)], "a run begins at the group's lowest message"
            if place < len(runs) - 1:
                left = expected[group][len(run) :]
                # What nobody has seen yet may still be in the log.
                assert all(message.receives == 0 for message in left), (
                    "a group gives all before the next one"
                )
        available = sum(len(messages) for messages in expected.values())
        assert len(found) == min(count, available), "as many as there are and fit"
        for message in found:
            known = self.model.find(message["Body"])
            known.receives += 1
            known.handle = message["ReceiptHandle"]
            known.visible_at = self.model.now + seconds
            assert message["Attributes"]["ApproximateReceiveCount"] == str(known.receives)

    @precondition(lambda self: self.model.in_flight())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.model.in_flight()))
        self.sqs("DeleteMessage", QueueUrl=self.queue, ReceiptHandle=message.handle)
        self.model.groups[message.body[0]].remove(message)

    @precondition(lambda self: self.model.in_flight())
    @rule(data=st.data(), seconds=SECONDS)
    def change(self, data: st.DataObject, seconds: int) -> None:
        self.hide(data, seconds)

    def hide(self, data: st.DataObject, seconds: int) -> None:
        message = data.draw(st.sampled_from(self.model.in_flight()))
        assert message.handle is not None
        self.sqs.hide({"ReceiptHandle": message.handle}, seconds, self.queue)
        message.visible_at = self.model.now + seconds

    @precondition(lambda self: self.model.in_flight())
    @rule(data=st.data(), count=st.integers(1, 5))
    def give_back(self, data: st.DataObject, count: int) -> None:
        """One message comes back early, and somebody looks."""
        self.hide(data, 0)
        self.receive(count, 65)

    @rule(tens=st.integers(1, 3))
    def wait(self, tens: int) -> None:
        clock.advance(self.db, tens * 10)
        self.model.now += tens * 10

    @rule()
    def maintain(self) -> None:
        maintain(self.db)

    @rule()
    def count(self) -> None:
        flying = len(self.model.in_flight())
        total = sum(len(messages) for messages in self.model.groups.values())
        assert self.sqs.counts(self.queue) == (total - flying, flying, 0)

    def teardown(self) -> None:
        """Everything that was sent can still be received, each group in its order."""
        clock.advance(self.db, 100)
        self.model.now += 100
        rest: dict[str, list[str]] = {}
        while found := self.sqs.receive(self.queue, VisibilityTimeout=600):
            for message in found:
                rest.setdefault(message["Body"][0], []).append(message["Body"])
                self.sqs.delete(message, self.queue)
        assert rest == {
            group: [message.body for message in messages]
            for group, messages in self.model.groups.items()
            if messages
        }


def _run(db: Session, **profile: Any) -> None:
    class Bound(Machine):
        pass

    Bound.db = db
    common = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
    run_state_machine_as_test(Bound, settings=settings(**common, **profile))


def test_any_order_of_actions_keeps_the_rules_of_groups(db: Session) -> None:
    _run(db, max_examples=20, stateful_step_count=20, derandomize=True)


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_thousands_of_orders_keep_the_rules_of_groups(db: Session) -> None:
    examples = int(os.environ.get("PENSTOCK_EXAMPLES", "500"))
    _run(db, max_examples=examples, stateful_step_count=40, print_blob=True)
