"""Arguments of the wrong type: the error names the argument, and nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import psycopg

    from penstock import Client

WRONG: list[tuple[str, Callable[[Any], Awaitable[Any]], str]] = [
    ("publish", lambda mq: mq.publish("orders", 1, priority="high"), "priority is 'high'"),
    ("float", lambda mq: mq.publish("orders", 1, priority=1.5), "priority is 1.5"),
    ("bool", lambda mq: mq.publish("orders", 1, priority=True), "priority is True"),
    ("topic", lambda mq: mq.publish(7, 1), "is 7: give a text"),
    ("object", lambda mq: mq.publish(object(), 1), "give a text"),
    (
        "many",
        lambda mq: mq.publish_many("orders", [1], priorities=["high"]),
        "priorities is 'high'",
    ),
    ("keys", lambda mq: mq.publish_many("orders", [1], keys=[7]), "keys is 7: give a text"),
    ("queue", lambda mq: mq.claim(7), "is 7: give a text"),
    ("count", lambda mq: mq.claim("billing", count="all"), "is 'all': give a whole number"),
    ("ids", lambda mq: mq.ack_many("billing", ["x"], "token"), "is 'x': give a whole number"),
    (
        "attempts",
        lambda mq: mq.create_queue("other", topic="orders", max_delivery_attempts="few"),
        "max_delivery_attempts is 'few': give a whole number",
    ),
]


@pytest.mark.parametrize(
    ("act", "words"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG]
)
async def test_argument_of_the_wrong_type_is_named(
    mq: Client,
    orders: str,
    db: psycopg.Connection[Any],
    act: Callable[[Any], Awaitable[Any]],
    words: str,
) -> None:
    with pytest.raises(errors.InvalidArgument) as told:
        await act(mq)
    assert words in str(told.value)
    assert db.execute("select count(*) from penstock.messages").fetchall() == [(0,)]
    assert await mq.publish(orders, 1)


async def test_the_same_on_a_connection_of_the_callers(mq: Client, orders: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="priority is 'high'"):
        async with mq.transaction() as connection:
            await mq.publish(orders, 1, priority="high", connection=connection)  # type: ignore[arg-type]


async def test_number_out_of_range_is_an_invalid_argument(mq: Client, orders: str) -> None:
    with pytest.raises(errors.InvalidArgument):
        await mq.publish(orders, 1, priority=2**40)
