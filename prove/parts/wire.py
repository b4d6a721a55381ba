"""A hundred thousand hostile requests, rightly signed, to a server that runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.sqs.protocol.sqs_model import ACTIONS
from prove.attack import served
from prove.attack.flood import Flood
from prove.model import Outcome, Part
from tests.sqs.running import ADMIN

if TYPE_CHECKING:
    from prove.model import Take


def play(take: Take) -> Outcome:
    count = take.size(full=100_000, quick=1_000, twin=3_000)
    sabotage = "unguarded_json" if take.sabotaged else "-"
    with (
        served.database() as dsn,
        served.sqs(dsn, take.folder, (ADMIN,), sabotage) as server,
    ):
        flood = Flood(server.url, ADMIN, take.luck, take.folder)
        asyncio.run(flood.send(count))
        alive = server.process.poll() is None
    broken = dict(flood.broken)
    if not alive:
        broken["server ended"] = 1
    return Outcome(
        {
            "requests": flood.statuses.total(),
            "actions": len(flood.actions.keys() & ACTIONS.keys()),
            **{f"answered {status}": n for status, n in sorted(flood.statuses.items())},
            "5xx": broken.get("5xx", 0),
            "hangs": broken.get("hangs", 0),
        },
        broken,
    )


PART = Part(
    name="wire",
    promise="No request makes the SQS server fail or hang, however hostile its signed content.",
    how="Every action in both protocols with bodies bent by byte and by structure, rightly signed, "
    "over 16 connections to `penstock sqs`.",
    sabotage="what the JSON decoder raises is not turned into a refusal",
    breaks=frozenset({"5xx"}),
    play=play,
    enough={"requests": 100_000, "actions": len(ACTIONS)},
)
