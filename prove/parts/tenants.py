"""Tenants: calls of one on what belongs to another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prove.attack import neighbours, served, tenants
from prove.model import Outcome, Part

if TYPE_CHECKING:
    from prove.model import Take


def play(take: Take) -> Outcome:
    luck = take.luck
    foreign = take.size(full=7_500, quick=400, twin=1_000)
    reserved = take.size(full=1_500, quick=60, twin=0)
    tasks = take.size(full=1_000, quick=30, twin=0)
    sabotage = "strangers_allowed" if take.sabotaged else "-"
    with served.database() as dsn:
        with served.sqs(dsn, take.folder, tenants.KEYS, sabotage) as server:
            trespass = tenants.Trespass(server.url, luck)
            asyncio.run(_trespass(trespass, foreign, dsn))
        leaks = [
            *trespass.leaks,
            *neighbours.reserved(dsn, reserved, luck),
            *neighbours.tasks(dsn, tasks, luck),
        ]
    (take.folder / "leaks.txt").write_text("\n".join(leaks), encoding="utf-8")
    for leak in leaks[:10]:
        take.say(leak)
    counts = {name: n for name, n in sorted(trespass.counts.items()) if name != "calls"}
    return Outcome(
        {
            "calls": trespass.counts["calls"] + reserved + tasks,
            **counts,
            "calls on reserved queues": reserved,
            "calls of a tenant's tasks": tasks,
            "leaks": len(leaks),
        },
        {"leaks": len(leaks)} if leaks else {},
    )


async def _trespass(trespass: tenants.Trespass, count: int, dsn: str) -> None:
    await trespass.furnish()
    before = await asyncio.to_thread(tenants.holdings, dsn)
    await trespass.trespass(count)
    after = await asyncio.to_thread(tenants.holdings, dsn)
    if before != after:
        changed = [each for each in (*before, *after) if (each in before) != (each in after)]
        trespass.leaks.append(f"what the owners have was changed: {changed[:4]}")


PART = Part(
    name="tenants",
    promise="No tenant reads, changes or empties what belongs to another.",
    how="Keys of another account, of a narrower role and for other queues call every action of "
    "SQS on an owner's queues, named in every way and in ways that two readers could read "
    "differently, with stolen handles too; a role calls what is reserved for another; a tenant's "
    "tasks are reserved, listed and replayed. Whatever the owner has bears a mark, and is compared "
    "before and after.",
    sabotage="whose queue it is does not matter",
    breaks=frozenset({"leaks"}),
    play=play,
    enough={"calls": 10_000},
)
