"""Every option of a handler: its default, its reason, and what it may be.

And what follows from them: when to look at a queue, and for how much.  That is pure, so that every
rule can be tested by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from penstock.backoff import backoff, doubled
from penstock.client.consumer_options import (
    FIRST_NAP,
    LONGEST_DOUBT,
    LONGEST_REGISTERED,
    Mode,
)
from penstock.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST_CONCURRENCY = 10_000
_LARGEST_BATCH = 10_000
_USUAL_BATCH = 100
_LONGEST_POLL = timedelta(seconds=5)
_LONGEST_SLEEP = timedelta(seconds=30)
_SHORTEST_CLAIM = timedelta(seconds=1)
_LONGEST_ERROR_PAUSE_SECONDS = 30.0
# A little after the moment at which something is due, so that the look finds it.
_AFTER_DUE_SECONDS = 0.005


class RunIn(StrEnum):
    """Where a handler that is no coroutine runs."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True)
class Options:
    """What a handler was registered with."""

    concurrency: int = 1
    """Messages handled at the same time."""

    mode: Mode = Mode.HYBRID

    payload_type: Any = None
    """A dataclass, pydantic model or msgspec struct; without one, payloads are plain JSON."""

    batch_size: int | None = None
    """Messages one claim takes at most; without one, 100 or four times the concurrency, the larger.
    Slow handlers get fewer, so that a message does not wait here while another worker is idle."""

    prefetch: int | None = None
    """Messages that may wait here for a free slot; without one, two batches.  For slow handlers
    fewer do, down to none."""

    claim_for: timedelta = timedelta(seconds=30)
    """How long a claim lasts unless the worker extends it: how soon a crash is noticed."""

    timeout: timedelta | None = None
    """How long a handler may take; a message that takes longer has failed."""

    transactional: bool = False
    """The handler gets a connection, and its writes and the ack commit together."""

    run_in: RunIn = RunIn.THREAD

    polling_interval: timedelta = timedelta(seconds=1)
    """The first pause of a queue that is empty; it doubles while the queue stays so."""

    max_polling_interval: timedelta | None = None
    """The longest pause; without one 5 s, or 30 s in listen mode."""

    max_queue_retries: int | None = None
    """Failed looks in a row after which `run()` gives up; without one it never does."""

    queue_timeout: timedelta = timedelta(minutes=5)
    """How long one look at the queue may take before it counts as failed."""

    queue_error_retry_interval: timedelta = timedelta(seconds=1)
    """The pause after a failed look; it doubles to 30 s while looks keep failing."""

    def __post_init__(self) -> None:
        for check in (_check_numbers, _check_durations, _check_claim):
            check(self)

    @cached_property
    def most_claimed(self) -> int:
        """Messages one claim takes at most."""
        return self.batch_size or max(_USUAL_BATCH, 4 * self.concurrency)

    @cached_property
    def most_waiting(self) -> int:
        """Messages that may wait for a free slot."""
        return 2 * self.most_claimed if self.prefetch is None else self.prefetch

    @property
    def longest_pause(self) -> timedelta:
        """The longest sleep of an idle queue.

        Not longer than a claim: so a worker looks at least once while another worker's claim lasts,
        and learns when it ends.  It looks again then, in case the other worker has crashed.
        """
        usual = _LONGEST_SLEEP if self.mode is Mode.LISTEN else _LONGEST_POLL
        chosen = max(self.max_polling_interval or usual, self.polling_interval)
        return min(chosen, max(self.claim_for * 0.8, self.polling_interval))


class HandlerOptions(TypedDict, total=False):
    """What `handler()` takes, for editors and type checkers; `Options` says what each means."""

    concurrency: int
    mode: Mode | Literal["hybrid", "listen", "poll"]
    payload_type: Any
    batch_size: int | None
    prefetch: int | None
    claim_for: timedelta
    timeout: timedelta | None
    transactional: bool
    run_in: RunIn | Literal["thread", "process"]
    polling_interval: timedelta
    max_polling_interval: timedelta | None
    max_queue_retries: int | None
    queue_timeout: timedelta
    queue_error_retry_interval: timedelta


def options_from(given: Mapping[str, Any]) -> Options:
    """Read keyword arguments, with errors that name the option."""
    known = {field.name for field in fields(Options)}
    unknown = given.keys() - known
    if unknown:
        raise InvalidSetting(
            f"a handler has no option {', '.join(sorted(unknown))}; "
            f"there are {', '.join(sorted(known))}"
        )
    chosen = dict(given)
    for name, kind in (("mode", Mode), ("run_in", RunIn)):
        if name in chosen:
            chosen[name] = _choice(name, kind, chosen[name])
    return Options(**chosen)


def _choice(name: str, kind: type[StrEnum], value: Any) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(repr(each.value) for each in kind)
        raise InvalidSetting(f"{name} is {value!r}: choose one of {words}") from None


def _check_numbers(options: Options) -> None:
    _within("concurrency", options.concurrency, 1, _LARGEST_CONCURRENCY)
    _within("batch_size", options.batch_size, 1, _LARGEST_BATCH)
    _within("prefetch", options.prefetch, 0, _LARGEST_BATCH)
    _within("max_queue_retries", options.max_queue_retries, 0, None)


def _within(name: str, value: int | None, least: int, most: int | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidSetting(f"{name} is {value!r}: a whole number is needed")
    if value < least or (most is not None and value > most):
        allowed = f"{least} or more" if most is None else f"from {least} to {most}"
        raise InvalidSetting(f"{name} is {value}: choose {allowed}")


def _check_durations(options: Options) -> None:
    for field in fields(Options):
        value = getattr(options, field.name)
        if "timedelta" not in str(field.type) or value is None:
            continue
        if not isinstance(value, timedelta):
            raise InvalidSetting(
                f"{field.name} is {value!r}: a timedelta is needed, such as timedelta(seconds=3)"
            )
        if value <= timedelta(0):
            raise InvalidSetting(f"{field.name} is {value}: it must be longer than nothing")


def _check_claim(options: Options) -> None:
    if options.claim_for < _SHORTEST_CLAIM:
        raise InvalidSetting(f"claim_for is {options.claim_for}: a claim lasts a second at least")


# When to look


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
    # Most waits end with a wake-up during the first pause, which has not grown yet.
    grown = min(first, longest) if looks <= 1 else doubled(first, looks - 1, longest)
    pause = grown * (1 - 0.1 * luck)
    return pause if due_in is None else min(pause, max(0.0, due_in) + _AFTER_DUE_SECONDS)


def error_pause(options: Options, failures: int, luck: float) -> float:
    """How long to wait after so many failed looks in a row."""
    first = options.queue_error_retry_interval.total_seconds()
    longest = max(first, _LONGEST_ERROR_PAUSE_SECONDS)
    return backoff(failures, first=first, longest=longest, jitter=0.25, luck=luck)
