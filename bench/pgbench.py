"""Many connections at once, driven by pgbench: a client in C leaves the CPU to the server."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass

from bench.figures import middle

#: What a client holds at first, for scripts that ack what their last run claimed.
NOTHING_HELD = ("--define=id=0", "--define=ids={}")
_PROGRESS = re.compile(r"^progress: [\d.]+ s, ([\d.]+) tps, lat ([\d.]+) ms", re.MULTILINE)
_FAILED = re.compile(r"client \d+ (?:script \d+ )?aborted.*", re.MULTILINE)


class PgbenchError(Exception):
    """A client of it failed, or it reported nothing."""


@dataclass(frozen=True, slots=True)
class Load:
    """A script that so many clients repeat, each on its own connection, for some seconds."""

    script: str
    clients: int
    seconds: int
    #: Seconds at the beginning that don't count: each connection plans its statements then.
    warm_up: int


@dataclass(frozen=True, slots=True)
class Pace:
    #: Runs of the script in a second, all clients together, and how long one of them takes.
    per_second: float
    milliseconds: float


def run(program: str, dsn: str, load: Load, *, options: str = "") -> Pace:
    """Let the clients run; options are settings of their sessions, as in PGOPTIONS."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(load.script)
        script.flush()
        words = [program, "--no-vacuum", "--protocol=prepared", "--progress=1"]
        words += [f"--client={load.clients}", f"--time={load.seconds + load.warm_up}"]
        words += [*NOTHING_HELD, f"--file={script.name}", dsn]
        done = subprocess.run(
            words, env={"PGOPTIONS": options}, capture_output=True, text=True, check=False
        )
    failure = _FAILED.search(done.stderr)
    if done.returncode or failure:
        raise PgbenchError(failure.group() if failure else done.stderr.strip()[-500:])
    return pace(done.stderr, load.warm_up)


def pace(progress: str, warm_up: int) -> Pace:
    """The middle one of the seconds after the warm-up."""
    found = [(float(rate), float(latency)) for rate, latency in _PROGRESS.findall(progress)]
    counted = found[warm_up:]
    rate, latency = middle(rate for rate, _ in counted), middle(latency for _, latency in counted)
    if rate is None or latency is None:
        raise PgbenchError("pgbench reported no second after the warm-up")
    return Pace(rate, latency)
