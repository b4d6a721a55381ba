"""When to look at a queue, and for how much: pure, so that every rule can be tested by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.backoff import backoff, doubled
from penstock.client.consumer_options import FIRST_NAP, LONGEST_DOUBT, LONGEST_REGISTERED

if TYPE_CHECKING:
    from penstock.worker.options import Options

# A message should not wait longer than this in a worker whose slots are busy: another worker may
# be idle.
WAIT_HORIZON_SECONDS = 0.1
# The share of the newest duration in the running average of them.
_NEWEST = 0.1
_LONGEST_ERROR_PAUSE_SECONDS = 30.0
# A little after the moment at which something is due, so that the look finds it.
_AFTER_DUE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Load:
    """What a handler holds at one moment."""

    held: int
    """Claimed and not yet finished in the database: running, waiting, or on its way to be acked."""
    running: int
    waiting: int
    seconds: float | None
    """How long a message takes, on average; None: none has finished yet."""
    closed: bool = False
    """A message has to be handled alone in the worker: claim nothing."""


def waiting_room(options: Options, seconds: float | None) -> int:
    """How many messages may wait for a slot: as many as are worked off in a moment."""
    if seconds is None:
        return 0
    quickly = options.concurrency * WAIT_HORIZON_SECONDS / max(seconds, 1e-6)
    return min(options.most_waiting, int(quickly))


def wanted(options: Options, load: Load) -> int:
    """How many messages to claim now; 0: none, until something has finished."""
    if load.closed:
        return 0
    waiting_room_now = waiting_room(options, load.seconds)
    begun = load.running + load.waiting
    # A thread that outlived its message holds nothing, but still has its slot.
    room = options.concurrency + waiting_room_now - max(load.held, begun)
    idle_slots = begun < options.concurrency
    # Claims come in batches when the waiting room is half empty, not one by one.
    if not idle_slots and load.waiting > waiting_room_now // 2:
        return 0
    return max(0, min(room, options.most_claimed))


def averaged(average: float | None, newest: float) -> float:
    """The running average of durations."""
    return newest if average is None else average + _NEWEST * (newest - average)


def idle_pause(
    options: Options,
    looks: int,
    due_in: float | None,
    luck: float,
    *,
    hears: bool,
    doubtful: bool = False,
) -> float:
    """How long to sleep after so many looks in vain, of which the first counts 1.

    `due_in`: seconds until something becomes due; `luck`: 0 to 1, so that many workers do not look
    in step; `hears`: the database can wake us; `doubtful`: a publisher may commit without
    waking us.
    """
    first = options.polling_interval.total_seconds()
    longest = options.longest_pause.total_seconds()
    if hears:
        longest = min(longest, LONGEST_REGISTERED)
    if doubtful:
        first, longest = min(first, FIRST_NAP), min(longest, LONGEST_DOUBT)
    pause = doubled(first, max(0, looks - 1), longest) * (1 - 0.1 * luck)
    return pause if due_in is None else min(pause, max(0.0, due_in) + _AFTER_DUE_SECONDS)


def error_pause(options: Options, failures: int, luck: float) -> float:
    """How long to wait after so many failed looks in a row."""
    first = options.queue_error_retry_interval.total_seconds()
    longest = max(first, _LONGEST_ERROR_PAUSE_SECONDS)
    return backoff(failures, first=first, longest=longest, jitter=0.25, luck=luck)
