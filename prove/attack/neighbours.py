"""Tenants inside the database: reserved topics and queues, and tasks of two in one table."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from penstock.tasks import NewTask, open_store
from tests.sql.caller import Caller
from tests.sql.test_roles_and_grants import CONSUMING

if TYPE_CHECKING:
    import random

    from penstock.tasks.store import TaskStore

_PUBLISHING: list[tuple[Any, ...]] = [
    ("publish_message", "t", "1"),
    ("publish_messages", "t", ["1"]),
]
_READING: list[tuple[Any, ...]] = [("read_window", "lake"), ("commit_window", "lake", 1)]
_REFUSED = "PS009"
_BATCH = 20


def reserved(dsn: str, count: int, luck: random.Random) -> list[str]:
    """Calls by a role on what was granted to another; those that were not refused."""
    anna, bert = f"penstock_anna_{token_hex(4)}", f"penstock_bert_{token_hex(4)}"
    leaks = []
    with psycopg.connect(dsn, autocommit=True) as db:
        owner = Caller(db)
        for name in (anna, bert):
            member = sql.SQL("create role {} login in role penstock_publisher, penstock_consumer")
            db.execute(member.format(sql.Identifier(name)))
        owner("create_queue", "q", "t")
        owner("create_reader", "lake", "t", "beginning")
        for kind, name in (("topic", "t"), ("queue", "q"), ("reader", "lake")):
            owner(f"grant_{kind}", name, anna)
        with psycopg.connect(dsn, user=bert, autocommit=True) as session:
            caller = Caller(session)
            for _ in range(count):
                call = luck.choice([*CONSUMING, *_PUBLISHING, *_READING])
                if (outcome := _outcome(caller, call)) != _REFUSED:
                    leaks.append(f"{call[0]} of a reserved {call[1]}: {outcome}")
        for kind, name in (("topic", "t"), ("queue", "q"), ("reader", "lake")):
            owner(f"revoke_{kind}", name, anna)
        for name in (anna, bert):
            db.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))
    return leaks


def _outcome(caller: Caller, call: tuple[Any, ...]) -> str:
    try:
        caller.rows(*call)
    except psycopg.Error as problem:
        return problem.sqlstate or "no code"
    return "accepted"


def tasks(dsn: str, count: int, luck: random.Random) -> list[str]:
    """Calls for one tenant of a task store; what of another tenant they gave or changed."""
    return asyncio.run(_tasks(dsn, count, luck))


async def _tasks(dsn: str, count: int, luck: random.Random) -> list[str]:
    store = open_store(dsn)
    await store.create_tables()
    await store.open()
    try:
        await _enqueue(store, "acme", _BATCH)
        await _bury(store, "acme")
        before = await store.stats(tenant_id="acme")
        leaks: list[str] = []
        for _ in range(count):
            leaks += await _zeta(store, luck)
        if await store.stats(tenant_id="acme") != before:
            leaks.append("calls for zeta changed what acme has")
        return leaks
    finally:
        await store.close()


async def _enqueue(store: TaskStore, tenant: str, count: int) -> None:
    for number in range(count):
        # The same keys for both: a dedupe key is its tenant's own.
        key = f"{token_hex(8) if tenant == 'zeta' and count == 1 else ''}{number}"
        await store.insert(NewTask("mail", b"x", tenant_id=tenant, dedupe_key=key))


async def _bury(store: TaskStore, tenant: str) -> None:
    for task in await store.reserve("w", tenant_id=tenant, limit=5):
        await store.move_to_dlq(task.lease, "buried")


async def _zeta(store: TaskStore, luck: random.Random) -> list[str]:
    found: list[Any] = []
    match luck.randrange(6):
        case 0:
            await _enqueue(store, "zeta", 1)
        case 1:
            found = await store.reserve("w", tenant_id="zeta", limit=3, lease=timedelta(hours=1))
            for task in found:
                await store.ack(task.lease)
        case 2:
            found = await store.list_tasks(tenant_id="zeta", limit=50)
        case 3:
            found = [*await store.list_dlq(tenant_id="zeta", limit=50)]
        case 4:
            await _bury(store, "zeta")
        case _:
            await store.replay_dlq(tenant_id="zeta", limit=5)
    return [f"a task of {each.tenant_id} for zeta" for each in found if each.tenant_id != "zeta"]
