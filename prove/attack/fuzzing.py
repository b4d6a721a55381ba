"""Parsers fed until something gives that should not: an undocumented error, or no end."""

from __future__ import annotations

import json
import signal
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from prove.attack import mutations

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from prove.attack.targets import Target

# Of the processor's time, so that a busy machine does not count: a parser takes microseconds.
_LONGEST_SECONDS = 3.0
_SHOWN = 300


class Hang(BaseException):
    """A parser that does not come to an end; no Exception, so that no parser can catch it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of undocumented behaviour, with the first input that showed it."""

    target: str
    error: str
    place: str
    data: bytes


@dataclass(slots=True)
class Tally:
    """What came of all inputs."""

    inputs: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    findings: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    found: int = 0

    def note(self, target: Target, data: bytes, problem: BaseException) -> None:
        self.found += 1
        frame = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        key = (target.name, type(problem).__name__, place)
        self.findings.setdefault(
            key, Finding(target.name, f"{type(problem).__name__}: {problem}"[:_SHOWN], place, data)
        )

    def write(self, path: Path) -> None:
        lines = [
            json.dumps(
                {"target": x.target, "error": x.error, "place": x.place, "input": repr(x.data)}
            )
            for x in self.findings.values()
        ]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def feed(target: Target, data: bytes, tally: Tally) -> None:
    """One input: a value, a documented error, or a finding."""
    try:
        with _watched():
            target.parse(data)
    except target.refusals:
        tally.refused += 1
    except (Exception, Hang) as problem:  # noqa: BLE001 - that is what is looked for
        tally.note(target, data, problem)


def mutate(target: Target, count: int, luck: random.Random, tally: Tally) -> None:
    """So many bent samples."""
    source = mutations.inputs(target.samples, luck)
    for _ in range(count):
        feed(target, next(source), tally)
    tally.inputs["mutated"] += count


def imagine(target: Target, count: int, seed: int, tally: Tally) -> None:
    """So many inputs that hypothesis thinks of."""
    fed = 0

    @seeded(seed)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_strategy(target))
    def run(data: bytes) -> None:
        nonlocal fed
        fed += 1
        feed(target, data, tally)

    run()
    tally.inputs["imagined"] += fed


def _strategy(target: Target) -> st.SearchStrategy[bytes]:
    """Values as JSON, texts, and bytes, alone and within a sample."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
        lambda inner: (
            st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=12), inner, max_size=5)
        ),
        max_leaves=15,
    ).map(lambda value: json.dumps(value).encode())
    texts = st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass"))
    pieces = values | texts | st.binary(max_size=60) | st.sampled_from(mutations.HOSTILE)
    samples = st.sampled_from(target.samples)
    within = st.builds(_spliced, samples, st.integers(0, 10**4), st.integers(0, 20), pieces)
    return pieces | within


def _spliced(sample: bytes, place: int, length: int, piece: bytes) -> bytes:
    place %= len(sample) + 1
    return sample[:place] + piece + sample[place + length :]


@contextmanager
def watching() -> Iterator[None]:
    """Hangs are noticed inside; of the main thread only."""

    def stop(_number: int, _frame: object) -> None:
        raise Hang(f"no end within {_LONGEST_SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _watched() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
