"""Consumer groups: whose turn a message is, and what becomes of those that nobody wants."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import Group, Worker
from penstock.errors import InvalidSetting
from penstock.worker.groups import Member, chosen
from tests.worker.play import dead_letters, states, until, working

if TYPE_CHECKING:
    import psycopg

    from penstock import Client, Message

    Db = psycopg.Connection[Any]


@dataclass(frozen=True)
class Numbered:
    id: int
    payload: Any = None


async def nothing(message: Any) -> None: ...


def members(*names: str) -> list[Member]:
    return [Member(name, nothing) for name in names]


@given(number=st.integers(min_value=1), count=st.integers(min_value=1, max_value=9))
def test_a_message_goes_to_the_member_of_its_number(number: int, count: int):
    group = members(*map(str, range(count)))
    assert chosen(group, Numbered(number)) is group[number % count]


def test_only_members_that_accept_take_turns():
    even = Member("even", nothing, lambda message: message.payload % 2 == 0)
    anyone, picky = Member("any", nothing), Member("picky", nothing, lambda _: False)
    assert chosen([even, picky, anyone], Numbered(4, payload=2)) is even
    assert chosen([even, picky, anyone], Numbered(5, payload=2)) is anyone
    assert chosen([even, picky, anyone], Numbered(4, payload=3)) is anyone
    assert chosen([picky], Numbered(4)) is None


async def test_members_share_the_messages_by_their_ids(mq: Client, db: Db):
    await mq.create_queue("processors", topic="orders")
    worker, got = Worker(mq), {}
    group = worker.add_group(Group("processors"), concurrency=5)
    for name in ("one", "two", "three"):

        async def handle(message: Message[Any], name: str = name) -> None:
            got[message.id] = name

        group.add_member(name, handle)
    published = await mq.publish_many("orders", list(range(12)))
    async with working(worker):
        await until(lambda: states(db, "processors")["done"] == 12)
    names = ("one", "two", "three")
    assert got == {number: names[number % 3] for number in published}
    assert [member.handled for member in group.members] == [4, 4, 4]


async def test_members_join_and_leave_while_the_group_runs(mq: Client, db: Db):
    worker, got = Worker(mq), []
    group = worker.add_group(Group("team", queue="billing"))

    def member(name: str) -> Any:
        async def handle(message: Message[Any]) -> None:
            got.append((name, message.payload))

        return handle

    async with working(worker):
        await mq.publish("orders", "nobody is here yet")
        # A group without members claims nothing, so nothing is held back from anybody.
        await asyncio.sleep(0)
        assert states(db)["pending"] == 1
        group.add_member("first", member("first"))
        await until(lambda: states(db)["done"] == 1)
        group.add_member("second", member("second"))
        group.remove_member("first")
        await mq.publish("orders", "for the second")
        await until(lambda: states(db)["done"] == 2)
        group.remove_member("second")
    assert got == [("first", "nobody is here yet"), ("second", "for the second")]


async def test_a_member_that_leaves_finishes_what_it_has(mq: Client, db: Db):
    worker, go_on, began = Worker(mq), asyncio.Event(), asyncio.Event()
    group = worker.add_group(Group("team", queue="billing"))

    @group.member("slow")
    async def slow(message: Message[Any]) -> None:
        began.set()
        await go_on.wait()

    await mq.publish("orders", {})
    async with working(worker):
        await began.wait()
        group.remove_member("slow")
        go_on.set()
        await until(lambda: states(db)["done"] == 1)


async def test_what_the_group_refuses_is_done_with(mq: Client, db: Db):
    worker, got = Worker(mq), []
    group = worker.add_group(
        Group("team", queue="billing", filter=lambda message: message.payload > 5)
    )

    @group.member("all")
    async def every(message: Message[Any]) -> None:
        got.append(message.payload)

    await mq.publish_many("orders", [3, 9])
    async with working(worker):
        await until(lambda: states(db)["done"] == 2)
    assert got == [9]


async def test_what_no_member_accepts_is_not_lost_but_becomes_a_dead_letter(mq: Client, db: Db):
    await mq.create_queue("once", topic="orders", max_delivery_attempts=1)
    worker = Worker(mq)
    group = worker.add_group(Group("team", queue="once"))
    group.add_member("eu", nothing, filter=lambda message: message.headers.get("region") == "eu")
    await mq.publish("orders", "for nobody")
    await mq.publish("orders", "for eu", headers={"region": "eu"})
    async with working(worker):
        await until(lambda: states(db, "once")["done"] == 1 and states(db, "once")["dead"] == 1)
    assert dead_letters(db, "once") == ["no member of group 'team' accepts this message"]


def test_names_of_members_are_their_own():
    group = Group("team")
    group.add_member("a", nothing)
    with pytest.raises(InvalidSetting, match="'a' already"):
        group.add_member("a", nothing)
    with pytest.raises(InvalidSetting, match="no member 'b'"):
        group.remove_member("b")
