"""What a consumer decides, without touching the database or a clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from penstock.errors import InvalidSetting
from penstock.postgres.session import Reach

_MOST_BATCH = 10_000
_MOST_DOUBLINGS = 16

# In doubt (see Stragglers) the first looks come quickly, each after twice the time of the one
# before: a message waits at most as long again as its transaction took, and no longer than this.
FIRST_NAP = 0.05
LONGEST_DOUBT = 1.0

# A registration ends by itself, so a waiting consumer has to renew it from time to time.  In listen
# mode it does so once a minute, and looks at the queue as well.
_LONGEST_LISTEN = 60.0
# The engine accepts a registration of at most one hour.  It keeps an older one that has more than
# half of that time left, so only half of the time is certain.
LONGEST_REGISTERED = 1799.0


class Mode(StrEnum):
    """How a consumer hears of new messages."""

    HYBRID = "hybrid"
    """Woken by notifications, and polls now and then in case one was lost."""
    LISTEN = "listen"
    """Woken by notifications alone."""
    POLL = "poll"
    """Looks at intervals: the only way behind a pooler in transaction mode."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a consumer was asked to behave."""

    mode: Mode = Mode.HYBRID
    batch_size: int = 10
    """Messages that one claim asks for."""
    prefetch: int = 0
    """Claim the next batch while fewer than this many wait in memory; 0: when none is left."""
    polling_interval: timedelta = timedelta(seconds=1)
    max_polling_interval: timedelta | None = None
    """How far the interval grows on an idle queue; 5 s, or 30 s in listen mode."""
    claim_for: timedelta = timedelta(seconds=30)
    give_up_after: int | None = None
    """Failures to reach the database in a row before the loop ends with the error; None: never."""

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= _MOST_BATCH:
            raise InvalidSetting(f"batch_size is {self.batch_size}: choose from 1 to {_MOST_BATCH}")
        if not 0 <= self.prefetch <= _MOST_BATCH:
            raise InvalidSetting(f"prefetch is {self.prefetch}: choose from 0 to {_MOST_BATCH}")
        if self.give_up_after is not None and self.give_up_after < 1:
            raise InvalidSetting(
                f"give_up_after is {self.give_up_after}: choose 1 or more, or None"
            )
        for name in ("polling_interval", "claim_for", "max_polling_interval"):
            span: timedelta | None = getattr(self, name)
            if span is not None and not isinstance(span, timedelta):
                raise InvalidSetting(
                    f"{name} is {span!r}: give a timedelta, such as timedelta(seconds=3)"
                )
            if span is not None and span <= timedelta(0):
                raise InvalidSetting(f"{name} is {span}: choose more than 0 seconds")

    @property
    def longest_interval(self) -> float:
        if self.max_polling_interval is not None:
            return max(self.max_polling_interval, self.polling_interval).total_seconds()
        # In hybrid mode it limits the delay of a message whose notification was not sent.
        usual = 30.0 if self.mode is Mode.LISTEN else 5.0
        return max(usual, self.polling_interval.total_seconds())


class Stragglers:
    """Publishers that may commit without waking us.

    A publisher looks for registered consumers when it publishes, and commits later.  A publisher
    that looked before we registered does not notify us.  Its transaction had its id before that
    look.  So its id is lower than our mark, the id of a transaction that we begin after we have
    registered.  Once no running transaction has a lower id, every publisher sees our registration.
    """

    def __init__(self) -> None:
        self.mark: int | None = None
        """Drawn after we registered; None: not yet."""

    def left(self, oldest_writer: int) -> bool:
        """Whether there may be one, seeing who writes now."""
        return self.mark is None or oldest_writer < self.mark

    def forget(self) -> None:
        """We are not registered any more, or may not be."""
        self.mark = None


def mode_named(name: str) -> Mode:
    try:
        return Mode(name)
    except ValueError:
        known = ", ".join(Mode)
        raise InvalidSetting(f"there is no consumer mode {name!r}: choose one of {known}") from None


def possible_mode(mode: Mode, *, pooler: bool) -> Mode:
    """What the mode becomes where sessions are shared."""
    if not pooler or mode is Mode.POLL:
        return mode
    if mode is Mode.HYBRID:
        return Mode.POLL
    raise listen_impossible()


def listen_impossible() -> InvalidSetting:
    return InvalidSetting(
        "mode 'listen' needs a session of its own, and the connection goes through a pooler that "
        "shares sessions: use mode 'hybrid' or 'poll', or a DSN that leads to the server directly"
    )


def idle_pause(
    options: Options, reach: Reach, looks: int, due_in: float | None, *, doubtful: bool = False
) -> float:
    """How long an idle consumer may sleep, in seconds.

    `looks` counts how often it has looked in vain; `due_in` tells when a delayed or claimed message
    comes up next.  0 or less: one is there, but out of reach for now, such as behind its key, or it
    came a moment after the look.  `doubtful`: a publisher may commit without waking us.
    """
    growth = 2.0 ** min(looks, _MOST_DOUBLINGS)
    longest = _undisturbed(options, reach, growth)
    if doubtful and options.mode is not Mode.POLL:
        longest = min(longest, FIRST_NAP * growth, LONGEST_DOUBT)
    if due_in is None:
        return longest
    polling = options.polling_interval.total_seconds()
    return min(longest, due_in if due_in > 0 else min(FIRST_NAP * growth, polling))


def _undisturbed(options: Options, reach: Reach, growth: float) -> float:
    polling = options.polling_interval.total_seconds()
    match options.mode:
        case Mode.POLL:
            return min(polling * growth, options.longest_interval)
        case Mode.HYBRID if reach is Reach.HEARING:
            return min(polling * growth, options.longest_interval, LONGEST_REGISTERED)
        case Mode.HYBRID:
            # No notification reaches us now, so only polling finds messages.
            return min(FIRST_NAP * growth, polling)
        case Mode.LISTEN:
            return _LONGEST_LISTEN
        case _:
            assert_never(options.mode)


def registration(longest_nap: float) -> timedelta:
    """How long to be registered as waiting for a pause of at most this length.

    The engine keeps an older registration that has more than half of this left.
    """
    return timedelta(seconds=2 * longest_nap + 1)


def longest_nap(options: Options) -> float:
    if options.mode is Mode.LISTEN:
        return _LONGEST_LISTEN
    return min(options.longest_interval, LONGEST_REGISTERED)
