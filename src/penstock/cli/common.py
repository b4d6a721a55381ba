"""The options that every command shares; they may stand before the noun or at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

DsnOption = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        metavar="URL",
        help="The server to use. Default: PENSTOCK_DSN, else an embedded PostgreSQL.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@dataclass(frozen=True, slots=True)
class Common:
    """The shared options as given before the noun."""

    dsn: str | None = None
    json: bool = False
