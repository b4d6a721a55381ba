"""Metrics of requests: counters for /metrics, and one line for each request in the access log.

Neither ever holds a body, a receipt handle or a signature.  Several processes behind one port each
write their counters into a folder, so that the one that answers /metrics answers for all.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left
from collections import Counter
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.sqs.protocol.faults import Fault

_access = logging.getLogger("penstock.sqs.access")

# Long polls are counted without their wait.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_KINDS = {
    "penstock_sqs_requests_total": ("counter", "Requests answered"),
    "penstock_sqs_faults_total": ("counter", "Requests refused, by the code the client saw"),
    "penstock_sqs_open_polls": ("gauge", "Long polls that wait"),
    "penstock_sqs_request_seconds": ("histogram", "Time to answer, without waiting on purpose"),
}


@lru_cache(maxsize=1024)
def _name(action: str, status: int) -> str:
    return f'penstock_sqs_requests_total{{action="{action}",status="{status}"}}'


@lru_cache(maxsize=1024)
def _names(action: str) -> tuple[str, ...]:
    """The counters of an action's times: one a bound, and their sum."""
    name = "penstock_sqs_request_seconds"
    buckets = (f'{name}_bucket{{action="{action}",le="{each}"}}' for each in (*_BOUNDS, "+Inf"))
    return (*buckets, f'{name}_sum{{action="{action}"}}')


class RequestMetrics:
    """Counts requests; cheap enough to be called for every one."""

    def __init__(self, *, access_log: bool, folder: Path | None = None) -> None:
        self._access_log = access_log
        self._folder = folder
        self._counts: Counter[str] = Counter()

    def note(self, action: str, status: int, seconds: float, fault: Fault | None) -> None:
        """One request has been answered."""
        counts = self._counts
        counts[_name(action, status)] += 1
        if fault is not None:
            counts[f'penstock_sqs_faults_total{{code="{fault.query_code}"}}'] += 1
        else:
            names = _names(action)
            counts[names[bisect_left(_BOUNDS, seconds)]] += 1
            # A counter of whole microseconds: adding floats for months would lose the small ones.
            counts[names[-1]] += round(seconds * 1e6)
        if self._access_log and _access.isEnabledFor(logging.INFO):
            code = "" if fault is None else f" {fault.query_code}"
            _access.info("%s %d %.1fms%s", action or "-", status, seconds * 1000, code)

    def share(self, polls: int) -> None:
        """Write the counters where the other processes read them."""
        self._counts["penstock_sqs_open_polls"] = polls
        if self._folder is not None:
            new = self._folder / f"{os.getpid()}.new"
            new.write_bytes(msgspec.json.encode(dict(self._counts)))
            new.replace(self._folder / f"{os.getpid()}.json")

    def text(self, polls: int) -> str:
        """The counters of all processes as Prometheus reads them."""
        self.share(polls)
        total: Counter[str] = Counter()
        for each in self._snapshots():
            total.update(each)
        return "\n".join(_lines(total)) + "\n"

    def _snapshots(self) -> Iterable[dict[str, int]]:
        if self._folder is None:
            yield self._counts
            return
        for path in sorted(self._folder.glob("*.json")):
            # Its process may just be ending.
            with suppress(OSError, msgspec.DecodeError):
                yield msgspec.json.decode(path.read_bytes(), type=dict[str, int])


def _lines(counts: Counter[str]) -> Iterable[str]:
    for metric, (kind, about) in _KINDS.items():
        yield f"# HELP {metric} {about}"
        yield f"# TYPE {metric} {kind}"
        if kind == "histogram":
            for action in sorted(_actions(counts, metric)):
                yield from _histogram(counts, metric, action)
        else:
            for name in sorted(each for each in counts if each.partition("{")[0] == metric):
                yield f"{name} {counts[name]}"


def _actions(counts: Counter[str], metric: str) -> set[str]:
    start = f'{metric}_sum{{action="'
    return {
        name.removeprefix(start).removesuffix('"}') for name in counts if name.startswith(start)
    }


def _histogram(counts: Counter[str], metric: str, action: str) -> Iterable[str]:
    total = 0
    for bound in (*_BOUNDS, "+Inf"):
        name = f'{metric}_bucket{{action="{action}",le="{bound}"}}'
        total += counts[name]
        yield f"{name} {total}"
    seconds = f'{metric}_sum{{action="{action}"}}'
    yield f"{seconds} {counts[seconds] / 1e6:.6f}"
    yield f'{metric}_count{{action="{action}"}} {total}'
