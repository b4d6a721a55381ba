"""penstock pipeline dedupe and aggregate."""

from __future__ import annotations

from datetime import timedelta
from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.arguments import duration_option
from penstock.cli.pipeline.common import Group, MaxRows, Start, To, Topics, pairs, pipeline_command
from penstock.cli.session import Session


def dedupe(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    topics: Topics,
    to: To,
    by: Annotated[
        str, typer.Option("--by", metavar="SQL", help="What duplicates have in common.")
    ] = "key",
    within: Annotated[
        timedelta | None, duration_option("--within", help="How long it is remembered (1h).")
    ] = None,
    group: Group = None,
    start: Start = "earliest",
    max_rows: MaxRows = 100_000,
) -> Any:
    """Pass on the first message of each key within a window, and drop the others."""
    return pipelines.dedupe(
        topics,
        to,
        by=by,
        within=timedelta(hours=1) if within is None else within,
        group=group,
        start=start,
        max_rows=max_rows,
        **run,
    )


def aggregate(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    topics: Topics,
    to: To,
    by: Annotated[
        str | None, typer.Option("--by", metavar="SQL", help="One count for each value of this.")
    ] = "key",
    window: Annotated[
        timedelta | None, duration_option("--window", help="How long a window is (1m).")
    ] = None,
    late: Annotated[
        timedelta | None, duration_option("--late", help="How long to wait for latecomers (10s).")
    ] = None,
    value: Annotated[
        list[str],
        typer.Option("--value", metavar="NAME=SQL", help="Another aggregate; may be repeated."),
    ] = [],  # noqa: B006 - typer's way to say that it may be repeated
    group: Group = None,
    start: Start = "earliest",
    max_rows: MaxRows = 100_000,
) -> Any:
    """Publish counts, and more if asked, of each window of time."""
    return pipelines.aggregate(
        topics,
        to,
        by=by,
        window=timedelta(minutes=1) if window is None else window,
        late=timedelta(seconds=10) if late is None else late,
        values=pairs(value, "--value"),
        group=group,
        start=start,
        max_rows=max_rows,
        **run,
    )


def register(app: typer.Typer) -> None:
    example = "penstock pipeline dedupe orders --to orders-once --by key --within 1h"
    pipeline_command(app, example=example)(dedupe)
    example = "penstock pipeline aggregate orders --to orders-per-minute --by key --window 1m"
    pipeline_command(app, example=example)(aggregate)
