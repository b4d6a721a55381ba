"""Bombs and slow clients: memory stays bounded, others are served."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from prove.attack import served
from prove.attack.bombs import Bomber, Memory, Regular
from prove.attack.wire import Line, as_bytes, json_request
from prove.model import Outcome, Part
from tests.sqs.running import ADMIN, STRANGER

if TYPE_CHECKING:
    from prove.attack.served import Served
    from prove.model import Take

# Four bodies of 8 MiB at once, each several times in other forms, and the server itself.
MOST_MIB = 512
# Those of the twin: each would need an hour to end by itself there.
DECIDING = frozenset({"endless bodies", "slow clients"})


def play(take: Take) -> Outcome:
    sabotage = "no_limits" if take.sabotaged else "-"
    with (
        served.database() as dsn,
        served.sqs(dsn, take.folder, (ADMIN, STRANGER), sabotage) as server,
    ):
        return asyncio.run(_attack(take, server))


async def _attack(take: Take, server: Served) -> Outcome:
    await _queues(server.url)
    memory, regular = Memory(server.process.pid), Regular(server.url, ADMIN)
    bomber = Bomber(server.url, ADMIN, STRANGER, take.size(full=100, quick=12, twin=12))
    meanwhile = [asyncio.create_task(memory.watch()), asyncio.create_task(regular.go_on())]
    for name, attack in bomber.attacks.items():
        if take.sabotaged and name not in DECIDING:
            continue
        served_before = regular.served
        await attack()
        take.say(
            f"{name}: peak {memory.peak:.0f} MiB, {regular.served - served_before} others served"
        )
    for task in meanwhile:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    failures = sum(count for status, count in bomber.statuses.items() if status >= 500)
    broken = {
        "memory": int(memory.peak > MOST_MIB),
        "slow clients kept": bomber.kept,
        "others refused": regular.failed,
        "5xx": failures,
        "hangs": bomber.statuses[0],
        "server ended": int(server.process.poll() is not None),
    }
    return Outcome(
        {
            "attacks": len(bomber.attacks),
            "attackers answered": bomber.statuses.total(),
            "others served meanwhile": regular.served,
            "others refused": regular.failed,
            "memory before, MiB": round(memory.before),
            "memory at most, MiB": round(memory.peak),
            "slow clients kept": bomber.kept,
        },
        {name: count for name, count in broken.items() if count},
    )


async def _queues(url: str) -> None:
    line = Line(url)
    for name in ("q", "regular"):
        body = json.dumps({"QueueName": name}).encode()
        reply = await line.ask(as_bytes(json_request(url, "CreateQueue", body, ADMIN)))
        assert reply.status == 200, reply
    line.close()


PART = Part(
    name="bombs",
    promise="What is small to send and large to serve is refused; memory stays bounded, and others "
    "are served meanwhile.",
    how="Packed, deep, wide, endless and slow requests, long heads and addresses, patterns of "
    "stars, answers that no client reads, against `penstock sqs`, while an honest client goes on. "
    "The bound of 512 MiB was set after the first runs, which took up to 407: it says that memory "
    "is bounded, not that it is little.",
    sabotage="bodies of any size, clients of any slowness",
    breaks=frozenset({"memory", "slow clients kept"}),
    play=play,
    enough={"attacks": 13, "others served meanwhile": 500},
)
