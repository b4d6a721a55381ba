"""How much work a run does.  Every figure that decides it stands here."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Sizes:
    #: Rounds in which the contestants take turns; medians are taken over them.
    repeats: int = 7
    #: Messages per round, one by one and in batches.
    calls: int = 600
    batched_messages: int = 10_000
    #: Calls before each measurement, after statistics were renewed.
    warm_up_calls: int = 20
    #: Messages per statement when a backlog is laid down.
    preload_batch: int = 1_000
    #: The backlog to drain.
    backlog: int = 1_000_000
    #: Messages to put through while another session stays open.
    course: int = 240_000
    #: A course is measured in that many consecutive slices; cost at the start and at the end is
    #: the median of `edge` of them.
    slices: int = 24
    edge: int = 4
    #: Seconds after which a contestant's course is cut short, and that of one which targets judge.
    time_limit: float = 100.0
    judged_time_limit: float = 900.0
    #: Seconds after which a contestant that others take turns with is left out.
    round_limit: float = 60.0
    #: Seconds between two rounds of a worker's housekeeping.
    housekeep_every: float = 5.0
    #: Messages a second, for how many seconds, and how long an idle consumer sleeps.
    pace: int = 800
    paced_seconds: float = 30.0
    poll_seconds: float = 0.005
    #: Jobs for a whole worker, for how many seconds at most, and messages that wake an idle one.
    jobs: int = 50_000
    worker_seconds: float = 15.0
    wake_ups: int = 100
    #: Jobs for many worker processes: enough that connecting is a small part of the time.
    fleet_jobs: int = 100_000
    #: Clients of one queue: seconds that count, seconds before them, and the backlog for ones; four
    #: times as much for tens.
    client_seconds: int = 5
    client_warm_up: int = 3
    client_backlog: int = 100_000
    #: Messages on an idle queue, and the seconds of idleness before each.
    wakeups: int = 300
    wakeup_pause: float = 0.1

    def messages_for(self, batch: int) -> int:
        """Messages of one round in batches of that size: whole batches only."""
        if batch == 1:
            return self.calls
        return max(1, self.batched_messages // batch) * batch


FULL = Sizes()
QUICK = Sizes(
    repeats=2,
    calls=60,
    batched_messages=400,
    warm_up_calls=4,
    preload_batch=500,
    backlog=5_000,
    course=4_000,
    slices=8,
    edge=2,
    time_limit=3.0,
    judged_time_limit=6.0,
    housekeep_every=1.0,
    paced_seconds=1.5,
    jobs=2_000,
    worker_seconds=6.0,
    wake_ups=10,
    fleet_jobs=4_000,
    client_seconds=1,
    client_warm_up=1,
    client_backlog=20_000,
    wakeups=20,
)


def chosen(*, quick: bool, messages: int | None, repeats: int | None) -> Sizes:
    sizes = QUICK if quick else FULL
    if messages is not None:
        sizes = replace(sizes, backlog=messages, course=messages)
    if repeats is not None:
        sizes = replace(sizes, repeats=repeats)
    return sizes
