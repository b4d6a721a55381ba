"""What every pipeline command shares: the options of a run, its progress, its summary.

Nothing here imports Spark: `penstock --help` must not wait for it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.arguments import duration_option
from penstock.cli.session import Session, command
from penstock.errors import InvalidSetting

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics to read.")]
To = Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic to publish to.")]
FileFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="json|csv|parquet",
        help="The files' format.",
        show_default="by the file's ending",
    ),
]
Group = Annotated[
    str | None,
    typer.Option("--group", help="The reader's name in the database.", show_default="of its own"),
]
Start = Annotated[
    str,
    typer.Option(
        "--start",
        metavar="earliest|latest|TIME",
        help="Where a new group begins; later runs go on where the last one ended.",
    ),
]
MaxRows = Annotated[
    int, typer.Option("--max-rows", min=1, metavar="ROWS", help="At most so many rows in a batch.")
]
LakeFormat = Annotated[
    str, typer.Option("--format", metavar="delta|iceberg|parquet", help="The table's format.")
]
Catalog = Annotated[
    str | None,
    typer.Option("--catalog", help="Iceberg: a catalog of your pyiceberg configuration."),
]
TableName = Annotated[
    str | None, typer.Option("--table", metavar="NAMESPACE.NAME", help="Iceberg: the table's name.")
]

_RUN: dict[str, tuple[Any, Any]] = {
    "once": (
        Annotated[
            bool, typer.Option("--once", help="Do what is there and end, instead of going on.")
        ],
        False,
    ),
    "every": (
        Annotated[
            timedelta | None,
            duration_option("--every", help="Going on: how often to look for more (1s)."),
        ],
        None,
    ),
    "state": (
        Annotated[
            str | None,
            typer.Option(
                "--state",
                metavar="FOLDER",
                help="Where it keeps what it has done: a folder, or a URI.",
                show_default="one per pipeline and arguments",
            ),
        ],
        None,
    ),
    "on_lost_offset": (
        Annotated[
            str,
            typer.Option(
                "--on-lost-offset",
                metavar="fail|rewind",
                help="When a fail-over lost what the state stands on: fail, or read again.",
            ),
        ],
        "fail",
    ),
    "master": (
        Annotated[
            str | None,
            typer.Option(
                "--master",
                metavar="URL",
                help="A cluster: spark://host:7077.",
                show_default="embedded, local[*]",
            ),
        ],
        None,
    ),
    "remote": (
        Annotated[
            str | None,
            typer.Option("--remote", metavar="URL", help="A Connect server: sc://host:15002."),
        ],
        None,
    ),
    "conf": (
        Annotated[
            list[str],
            typer.Option("--conf", metavar="NAME=VALUE", help="A Spark setting; may be repeated."),
        ],
        (),
    ),
}


def pipeline_command(
    app: typer.Typer,
    name: str | None = None,
    *,
    example: str,
    ends: bool = False,
    reads: bool = True,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a command of a function (session, pipelines, run, **its own options) → Summary.

    `ends`: the pipeline ends by itself, so it has no --once.  `reads`: it reads a log from where
    its last run ended.
    """
    left_out = {"once", "every"} if ends else set()
    if ends or not reads:
        left_out.add("on_lost_offset")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        command(app, name, example=example)(_as_command(function, left_out))
        return function

    return register


def _as_command(function: Callable[..., Any], left_out: set[str]) -> Callable[..., None]:
    shared = [_parameter(name, *rest) for name, rest in _RUN.items() if name not in left_out]
    names = {each.name for each in shared}

    @functools.wraps(function)
    def invoke(session: Session, **given: Any) -> None:
        own = {name: value for name, value in given.items() if name not in names}
        run = {name: given[name] for name in names}
        _run(session, function, own, run)

    session, _pipelines, _run_options, *own = inspect.signature(
        function, eval_str=True
    ).parameters.values()
    invoke.__signature__ = inspect.Signature([session, *own, *shared])  # type: ignore[attr-defined]
    return invoke


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _run(
    session: Session, function: Callable[..., Any], own: dict[str, Any], run: dict[str, Any]
) -> None:
    pipelines = load()
    from penstock.spark.pipelines.progress import LiveLine

    # Opens the embedded server if that is meant, and says what is wrong with the database.
    _ = session.connection
    with LiveLine(session.output.aside) as line:
        options = _options(session, run) | {"watch": line}
        try:
            summary = function(session, pipelines, options, **own)
        except KeyboardInterrupt:
            session.output.note("stopped; run it again, and it goes on where it was")
            raise
    session.output.record(summary.facts())


def load() -> ModuleType:
    """The pipelines; Spark is imported with them."""
    try:
        from penstock.spark import pipelines
    except ModuleNotFoundError as problem:
        raise InvalidSetting(
            f"pipelines need {problem.name}: pip install 'penstock-mq[spark]'"
        ) from None
    return pipelines


def _options(session: Session, run: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in run.items() if value is not None and name != "conf"}
    found["url"] = session.dsn
    found["conf"] = pairs(run["conf"], "--conf")
    found["spark_log"] = _log()
    # A command that ends by itself has no --once, and does what is there.
    found.setdefault("once", "once" not in run)
    return found


def _log() -> Path:
    """Spark's own log: a person looks at it when something is wrong, and not before."""
    from penstock.spark.pipelines.state import log_file

    return log_file()


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """`name=value` words as a mapping."""
    found = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{word!r} is not NAME=VALUE", param_hint=option)
        found[name.strip()] = value
    return found
