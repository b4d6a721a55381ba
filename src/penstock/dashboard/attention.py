"""What needs attention, worst first: rules on what was seen.  No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from penstock.client.facts import blocker
from penstock.dashboard.text_filters import ago, count, moment, rate, span

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from penstock.client.facts import FailingStep, Holder, QueueNow, Reader
    from penstock.dashboard.samples import Sample, Samples

OLD_HEAD = timedelta(minutes=5)
OLD_CLAIM = timedelta(hours=1)
GROWTH_SECONDS = 60.0
GROWTH_LEAST = 100
GROWTH_FACTOR = 1.2
LONG_TRANSACTION = timedelta(minutes=5)
LAZY_READER = timedelta(minutes=10)
# What to do about a message that holds up its key.
_CURES = {
    "claimed": "more workers do not help: see whether its consumer gets on with it",
    "delayed": "more workers do not help: the key goes on when the delay is over",
    "retrying": "more workers do not help: mend what makes it fail, or bury it",
}


class Level(IntEnum):
    """How much it matters."""

    NOTE = 1
    WARNING = 2
    ALARM = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Concern:
    """One thing that an operator should look at, and what to do about it."""

    level: Level
    kind: str
    name: str
    what: str
    advice: str
    link: str


def concerns(sample: Sample, samples: Samples) -> list[Concern]:
    found = [
        concern for queue in sample.queues.values() for concern in _of_queue(queue, sample, samples)
    ]
    found += [concern for holder in sample.holders for concern in _of_holder(holder, sample)]
    found += [concern for reader in sample.readers for concern in _of_reader(reader, sample)]
    # Once may be a lock that could not be had.
    found += [_of_step(step, sample) for step in sample.failing if step.failures > 1]
    return sorted(found, key=lambda each: (-each.level, each.kind, each.name))


def queue_link(name: str, **more: str) -> str:
    return f"/queue?{urlencode({'name': name, **more})}"


def _of_queue(queue: QueueNow, sample: Sample, samples: Samples) -> Iterator[Concern]:
    link = queue_link(queue.name)
    if queue.dead:
        yield Concern(
            Level.ALARM,
            "dead letters",
            queue.name,
            "1 message used up its attempts"
            if queue.dead == 1
            else f"{count(queue.dead)} messages used up their attempts",
            "see the errors, then requeue or delete",
            queue_link(queue.name, state="dead"),
        )
    grown = samples.growth(queue.name, GROWTH_SECONDS)
    if grown is not None and _grows(*grown):
        came, done = samples.rate(queue.name, "came"), samples.rate(queue.name, "done")
        yield Concern(
            Level.ALARM,
            "growing backlog",
            queue.name,
            f"{count(grown[0])} → {count(grown[1])} in a minute: {rate(came)}/s come, "
            f"{rate(done)}/s are done",
            "most are blocked, so more workers do not help: see what blocks them"
            if queue.blocked > queue.waiting
            else "add workers, or see what slows them down",
            queue_link(queue.name, state="blocked") if queue.blocked > queue.waiting else link,
        )
    if queue.paused_at is not None:
        yield Concern(
            Level.WARNING,
            "paused",
            queue.name,
            f"gives out nothing for {ago(queue.paused_at, sample.at)}",
            "resume it when the cause is mended",
            link,
        )
    elif _is_old(queue.oldest_blocked_at, sample) and (
        queue.oldest_blocked_at == queue.oldest_waiting_at
    ):
        yield Concern(
            Level.WARNING,
            "blocked",
            queue.name,
            f"the oldest message is due for {ago(queue.oldest_blocked_at, sample.at)}, blocked "
            f"until {moment(queue.blocked_until)} behind {blocker(queue)}",
            _CURES.get(queue.blocked_by_state or "", "see what blocks it"),
            queue_link(queue.name, state="blocked"),
        )
    elif _is_old(queue.oldest_waiting_at, sample):
        unattended = not any(each.queue == queue.name for each in samples.consumers())
        yield Concern(
            Level.WARNING,
            "old head",
            queue.name,
            f"the first message waits for {ago(queue.oldest_waiting_at, sample.at)}"
            + (", and the queue has no consumer" if unattended else ""),
            "start a worker" if unattended else "add workers, or see what slows them down",
            link,
        )
    if queue.oldest_claimed_at is not None and sample.at - queue.oldest_claimed_at > OLD_CLAIM:
        yield Concern(
            Level.NOTE,
            "long claim",
            queue.name,
            f"one is held for {ago(queue.oldest_claimed_at, sample.at)}",
            "see who holds it, and whether they are alive",
            "/workers",
        )


def _is_old(due_since: datetime | None, sample: Sample) -> bool:
    return due_since is not None and sample.at - due_since > OLD_HEAD


def _grows(before: int, now: int) -> bool:
    return now - before >= GROWTH_LEAST and now > before * GROWTH_FACTOR


def _of_holder(holder: Holder, sample: Sample) -> Iterator[Concern]:
    if holder.since is not None and sample.at - holder.since < LONG_TRANSACTION:
        return
    who = f"{holder.kind} of {holder.name}" if holder.kind == "transaction" else holder.name
    since = f" for {span(sample.at - holder.since)}" if holder.since else ""
    cure = (
        f"end it: select pg_terminate_backend({holder.pid})"
        if holder.kind == "transaction"
        else "commit, roll back or drop it"
    )
    yield Concern(
        Level.WARNING,
        "pinned horizon",
        who,
        f"{holder.state or holder.kind}{since}: vacuum can't clean up behind it",
        cure,
        "/storage",
    )


def _of_reader(reader: Reader, sample: Sample) -> Iterator[Concern]:
    if reader.oldest_at is None or sample.at - reader.oldest_at < LAZY_READER:
        return
    yield Concern(
        Level.WARNING,
        "reader holds the log",
        reader.name,
        f"{count(reader.lag)} behind, the first for {ago(reader.oldest_at, sample.at)}",
        "let it go on, or delete it: the log is kept for it",
        "/readers",
    )


def _of_step(step: FailingStep, sample: Sample) -> Concern:
    return Concern(
        Level.ALARM,
        "housekeeping fails",
        step.step,
        f"for {ago(step.since, sample.at)}, {count(step.failures)} times: {step.error}",
        "mend the cause: the log may only grow meanwhile",
        "/storage",
    )
