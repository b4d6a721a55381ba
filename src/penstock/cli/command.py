"""How a function becomes a command: the options that every command shares, a session, an example.

`@command(app, example=…)` gives the function a `Session` as its first argument and adds `--dsn` and
`--json` to its own options.  Both may also stand before the noun: `penstock --json topic list`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import typer

from penstock.cli.arguments import DsnOption, JsonOption, SharedOptions
from penstock.cli.session import Session

INTERRUPTED = 130


def command(
    app: typer.Typer,
    name: str | None = None,
    *,
    example: str,
    session: Callable[..., AbstractContextManager[Any]] = Session,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def register(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name, epilog=f"Example: {example}", no_args_is_help=False)(
            _with_session(function, session)
        )
        return function

    return register


def _with_session(
    function: Callable[..., None], opened: Callable[..., AbstractContextManager[Any]]
) -> Callable[..., None]:
    @functools.wraps(function)
    def invoke(*, context: typer.Context, dsn: str | None, json: bool, **own: Any) -> None:
        before = context.obj if isinstance(context.obj, SharedOptions) else SharedOptions()
        try:
            with opened(before.dsn if dsn is None else dsn, json=json or before.json) as session:
                function(session, **own)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    parameters = [*_own_parameters(function), *_SHARED]
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    invoke.__annotations__ = {each.name: each.annotation for each in parameters}
    return invoke


def _own_parameters(function: Callable[..., None]) -> list[inspect.Parameter]:
    _session, *own = inspect.signature(function, eval_str=True).parameters.values()
    return [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]


def _shared(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


_SHARED = (
    _shared("context", typer.Context),
    _shared("dsn", DsnOption, None),
    _shared("json", JsonOption, default=False),
)
