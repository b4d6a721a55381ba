"""Pauses that grow: between attempts to reach a server, and between polls of an idle queue."""

from __future__ import annotations

import random

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
# 2 ** 30 is beyond every sensible ratio of two pauses; without a limit the power overflows.
_MOST_DOUBLINGS = 30


def backoff(
    attempt: int,
    *,
    first: float = FIRST_PAUSE,
    longest: float = LONGEST_PAUSE,
    jitter: float = 0.5,
    luck: float | None = None,
) -> float:
    """Seconds before the next attempt: `first`, doubled each time, at most `longest`.

    A random share of up to `jitter` is taken off, so that a thousand clients do not connect to a
    restarted server at the same moment.  `luck`, from 0 to 1, fixes that share.
    """
    luck = random.random() if luck is None else luck  # noqa: S311 - no secret
    return doubled(first, attempt - 1, longest) * (1 - jitter * luck)


def doubled(first: float, times: int, longest: float) -> float:
    """`first` doubled so many times, at most `longest`."""
    return min(longest, first * 2.0 ** min(times, _MOST_DOUBLINGS))
