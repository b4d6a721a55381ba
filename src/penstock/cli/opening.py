"""What every run of a command has: its voice, and what is closed at its end."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

import typer

from penstock.cli.output import Output


class Opening:
    """Opens what a command needs when it needs it, and closes all of it at the end."""

    def __init__(self, dsn: str | None, *, json: bool) -> None:
        # An empty --dsn is an unset shell variable: don't fall back to another server.
        if dsn is not None and not dsn.strip():
            raise typer.BadParameter(
                "is empty; leave it out to use the embedded server", param_hint="--dsn"
            )
        self.output = Output(json=json)
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.close()
