"""What meets foreign bytes: each parser with samples of what it likes and the errors it may raise.

A parser may give a value or raise one of its documented errors.  Anything else is a finding.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Target:
    """One parser."""

    name: str
    parse: Callable[[bytes], object]
    refusals: tuple[type[BaseException], ...]
    """The documented errors."""
    samples: tuple[bytes, ...]
    """What it was made for; mutations begin here."""


def text_of(data: bytes) -> str:
    """Bytes as Python hands over foreign text: what is no UTF-8 becomes lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


def in_memory() -> Path:
    """A folder for files that are written by the thousand."""
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())


def every() -> dict[str, Target]:
    """All of them, by name."""
    # Imported late: a part that needs none of it should not load Spark's types.
    from prove.attack import client_targets, operator_targets, sqs_targets  # noqa: PLC0415

    found = (*sqs_targets.TARGETS, *client_targets.TARGETS, *operator_targets.TARGETS)
    return {target.name: target for target in found}


def together(targets: Sequence[Target]) -> Target:
    """Several as one: the first byte chooses."""

    def parse(data: bytes) -> object:
        target = targets[data[0] % len(targets)] if data else targets[0]
        try:
            return target.parse(data[1:])
        except target.refusals:
            return None

    samples = [
        bytes([number]) + sample
        for number, target in enumerate(targets)
        for sample in target.samples
    ]
    return Target(" and ".join(target.name for target in targets), parse, (), tuple(samples))
