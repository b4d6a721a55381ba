"""Signature Version 4: what Amazon published, what botocore signs, and one bit changed."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

from prove.attack import sabotage, served, vectors
from prove.attack.forging import Forger
from prove.model import Outcome, Part
from tests.sqs.running import ADMIN, running

if TYPE_CHECKING:
    from prove.model import Take

# Whoever announces more than he sends is let go soon.
_DEADLINE = timedelta(seconds=1)


def play(take: Take) -> Outcome:
    count = take.size(full=20_000, quick=600, twin=2_000)
    with (
        sabotage.unchecked_signatures() if take.sabotaged else nullcontext(),
        served.database() as dsn,
        running(
            dsn, take.folder, (ADMIN,), header_deadline=_DEADLINE, body_deadline=_DEADLINE
        ) as door,
    ):
        known, forged = vectors.judge_published()
        cases, problems = vectors.judge_hand_cases(ADMIN)
        forger = Forger(door.url, ADMIN, take.luck)
        asyncio.run(forger.forge(count))
    lines = [f"{name} {reply.status} {reply.code} {data!r}" for name, data, reply in forger.wrong]
    (take.folder / "accepted.txt").write_text("\n".join([*problems, *lines]), encoding="utf-8")
    wrong = {
        "published refused": len(vectors.PUBLISHED) - known,
        "wrongly accepted": len(forger.wrong) + forged,
        "hand cases": len(problems),
        "hangs": forger.counts["hangs"],
    }
    return Outcome(
        {
            "published": known,
            "hand cases": cases,
            "signed requests": forger.counts["undamaged accepted"],
            "one-bit changes": forger.counts["forged"],
            "refused": forger.counts["refused"],
            "accepted, the same in meaning": forger.counts["meaning unchanged"],
            "wrongly accepted": wrong["wrongly accepted"],
        },
        {name: number for name, number in wrong.items() if number},
    )


PART = Part(
    name="signatures",
    promise="A request is accepted only as it was signed.",
    how="Seven of Amazon's published examples, written down by hand because no package ships them, "
    "and hand-made cases signed by botocore; then every action as JSON, as a form and as a "
    "presigned URL, with one bit changed anywhere between the first byte and the last. What HTTP "
    "itself calls equal (the case of a header's name or of an escape, headers that are not signed) "
    "is not counted as another request.",
    sabotage="the comparison of signatures is always content",
    breaks=frozenset({"wrongly accepted"}),
    play=play,
    enough={"one-bit changes": 20_000, "signed requests": 69, "published": len(vectors.PUBLISHED)},
)
