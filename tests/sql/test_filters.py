"""create_queue(filter => …): headers and payload by containment, decided in the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from tests.sql.caller import Caller


def publish_samples(mq: Caller) -> None:
    mq.publish("t", {"n": 1, "kind": "a"}, headers={"region": "eu", "size": 5})
    mq.publish("t", {"n": 2, "kind": "b"}, headers={"region": "us"})
    mq.publish("t", {"n": 3, "kind": "a"})
    mq.publish("t", {"n": 4, "kind": "a"}, headers={"region": "eu"}, priority=7)
    mq.publish("t", [5])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"headers": {"region": "eu"}}, [4, 1]),
        ({"headers": {"region": "eu", "size": 5}}, [1]),
        ({"payload": {"kind": "a"}}, [4, 1, 3]),
        ({"headers": {"region": "eu"}, "payload": {"kind": "b"}}, []),
        ({"headers": {}}, [4, 1, 2, 3, 5]),
        ({"payload": [5]}, [5]),
    ],
)
@pytest.mark.parametrize("ordering", ["standard", "fair"])
def test_queue_gets_just_what_its_filter_lets_through(
    mq: Caller, condition: dict[str, Any], expected: list[int], ordering: str
) -> None:
    mq("create_queue", "q", "t", filter=condition, ordering=ordering)
    publish_samples(mq)
    assert mq.statistics("q").pending_count == len(expected)
    found = mq.payloads("q")
    assert [p["n"] if isinstance(p, dict) else p[0] for p in found] == expected


def test_message_that_a_filter_keeps_out_is_not_in_the_queue_at_all(mq: Caller) -> None:
    mq("create_queue", "q", "t", filter={"headers": {"region": "eu"}})
    message_id = mq.publish("t", 1, headers={"region": "us"})
    assert mq.state("q", message_id) is None
    assert mq.rows("browse_messages", "q") == []
    assert mq.consume("q") == []
    found = mq.statistics("q")
    assert (found.total_count, found.dead_count) == (0, 0)


def test_filter_of_one_queue_does_not_touch_another(mq: Caller) -> None:
    mq("create_queue", "eu", "t", filter={"headers": {"region": "eu"}})
    mq("create_queue", "all", "t")
    mq.publish("t", 1, headers={"region": "us"})
    assert (mq.payloads("eu"), mq.payloads("all")) == ([], [1])


def test_filtered_fifo_queue_keeps_the_order_of_what_passes(mq: Caller) -> None:
    mq("create_queue", "q", "t", ordering="fifo", filter={"payload": {"ok": True}})
    for number in range(6):
        mq.publish("t", {"n": number, "ok": number % 2 == 0}, key="k")
    assert [p["n"] for p in mq.drain("q", batch=1)] == [0, 2, 4]


def test_claim_looks_past_a_long_stretch_that_does_not_match(mq: Caller) -> None:
    mq("create_queue", "q", "t", filter={"headers": {"mine": True}})
    mq.publish_many("t", list(range(5000)))
    mq.publish("t", "found", headers={"mine": True})
    assert mq.payloads("q") == ["found"]


@pytest.mark.parametrize("condition", ["{}", "[]", "1", '{"header": {}}', '{"headers": 5}', '"x"'])
def test_malformed_filter_is_refused(mq: Caller, condition: str) -> None:
    with nothing_changes(mq.db), refused("PS005", "filter"):
        mq("create_queue", "q", "t", filter=condition)
