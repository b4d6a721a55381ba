"""Reading the clocks: CPU of server processes, WAL written, dead rows."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

from bench.model import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from bench.server import Server

#: Work of a known size; its CPU time tells how fast the machine is at the moment.
YARDSTICK = "select count(*) from generate_series(1, 100000)"


def cpu_ns(pid: int) -> int:
    """CPU time a process has used, in nanoseconds (Linux: the process's CPU clock)."""
    scheduler_clock = 2
    return time.clock_gettime_ns((~pid << 3) | scheduler_clock)


@dataclass(frozen=True, slots=True)
class Reading:
    at: float
    cpu: Mapping[str, int]
    server_cpu: int
    wal: int
    yardstick: int


class TooSlow(Exception):
    """It would take longer than the others can wait."""


@dataclass
class Stopwatch:
    """Collects how long each call took, and ends what takes too long altogether."""

    latencies: list[float] = field(default_factory=list)
    limit: float = math.inf
    _made: float = field(default_factory=time.perf_counter)
    _started: float = 0.0

    def start(self) -> None:
        self._started = time.perf_counter()
        if self._started - self._made > self.limit:
            raise TooSlow(f"cut off after {self.limit:g} s of a round")

    def stop(self) -> None:
        self.latencies.append(time.perf_counter() - self._started)


class Probe:
    """Takes readings for the backends of one contestant."""

    def __init__(self, server: Server, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._postmaster = server.process
        self._admin = server.admin()

    def read(self) -> Reading:
        yardstick = self._yardstick()
        return Reading(
            cpu={role: cpu_ns(pid) for role, pid in self._pids.items()},
            server_cpu=self._server_cpu(),
            wal=self._wal(),
            yardstick=yardstick,
            at=time.perf_counter(),
        )

    def since(self, before: Reading, messages: int, watch: Stopwatch) -> Sample:
        at = time.perf_counter()
        after = self.read()
        return Sample(
            messages=messages,
            seconds=at - before.at,
            cpu_ns={role: after.cpu[role] - before.cpu[role] for role in after.cpu},
            server_cpu_ns=after.server_cpu - before.server_cpu,
            wal_bytes=after.wal - before.wal,
            latencies=tuple(watch.latencies),
            yardstick_ns=before.yardstick,
        )

    def close(self) -> None:
        self._admin.close()

    def _wal(self) -> int:
        query = "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
        row = self._admin.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def _yardstick(self) -> int:
        pid = self._admin.info.backend_pid
        before = cpu_ns(pid)
        self._admin.execute(YARDSTICK)
        return cpu_ns(pid) - before

    def _server_cpu(self) -> int:
        """Every process of the server but our own session; ended ones are counted in ticks."""
        ours = self._admin.info.backend_pid
        alive: int = sum(_cpu_or_nothing(child) for child in self._children() if child != ours)
        times = self._postmaster.cpu_times()
        ended = times.children_user + times.children_system
        own = cpu_ns(int(self._postmaster.pid))
        return alive + round(ended * 1_000_000_000) + own

    def _children(self) -> list[int]:
        return [child.pid for child in self._postmaster.children()]


def _cpu_or_nothing(pid: int) -> int:
    try:
        return cpu_ns(pid)
    except OSError:
        return 0


def dead_rows(connection: psycopg.Connection) -> dict[str, int]:
    """Dead rows by table.  Backends report them when they end: close the sessions first."""
    rows = connection.execute(
        "select schemaname || '.' || relname, n_dead_tup from pg_stat_user_tables"
        " where n_dead_tup > 0 order by n_dead_tup desc"
    )
    return {str(table): int(count) for table, count in rows}


def machine() -> dict[str, object]:
    """What the figures were taken on."""
    return {
        "cpus": os.cpu_count(),
        "kernel": os.uname().release,
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "load": [round(value, 2) for value in os.getloadavg()],
    }
