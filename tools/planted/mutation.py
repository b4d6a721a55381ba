"""A planted fault as a value."""

from __future__ import annotations

from dataclasses import dataclass

MACHINE = "tests/conformance/test_state_machine.py"


@dataclass(frozen=True, slots=True)
class Suite:
    """Where faults are planted, and the tests that look there."""

    root: str
    machine: str
    everything: tuple[str, ...]
    server: str | None = None
    """The only one that has this code."""


ENGINE = Suite("sql", MACHINE, ("tests/sql", "tests/concurrency", "tests/conformance"))


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault: in `file`, `old` (found `times` times) becomes `new`."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    times: int = 1
    suite: Suite = ENGINE

    @property
    def path(self) -> str:
        return f"{self.suite.root}/{self.file}"
