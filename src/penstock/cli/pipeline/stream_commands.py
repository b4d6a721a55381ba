"""penstock pipeline route, dedupe and aggregate."""

from __future__ import annotations

from datetime import timedelta
from types import ModuleType
from typing import Annotated, Any

import typer

from penstock.cli.arguments import duration_option, find_object
from penstock.cli.pipeline.pipeline_command import (
    Group,
    MaxRows,
    Start,
    To,
    Topics,
    pairs,
)
from penstock.cli.session import Session


def route(
    _session: Session,
    pipelines: ModuleType,
    run: dict[str, Any],
    *,
    topics: Topics,
    to: Annotated[
        str | None, typer.Option("--to", metavar="TOPIC", help="One rule: where messages go.")
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="One rule: which messages go.")
    ] = None,
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="SQL", help="One rule: the new payload.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="SQL", help="One rule: the new key.")
    ] = None,
    header: Annotated[
        list[str],
        typer.Option("--header", metavar="NAME=SQL", help="One rule: a header; may be repeated."),
    ] = [],  # noqa: B006 - typer's way to say that it may be repeated
    rules: Annotated[
        str | None,
        typer.Option("--rules", metavar="FILE", help="Several rules, in a TOML or JSON file."),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql", metavar="QUERY", help="A query over the view messages."),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option("--function", metavar="MODULE:NAME", help="A Python function of one message."),
    ] = None,
    table: Annotated[
        list[str],
        typer.Option("--table", metavar="NAME=PATH", help="A static table to join; repeatable."),
    ] = [],  # noqa: B006
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="DDL", help="The payload's fields, seen as data.*"),
    ] = None,
    first_match: Annotated[
        bool, typer.Option("--first-match", help="Only the first rule that fits a message.")
    ] = False,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters",
            metavar="TOPIC",
            help="Where messages that fail go.",
            show_default="the first topic + .dead",
        ),
    ] = None,
    max_failures: Annotated[
        int, typer.Option("--max-failures", min=0, help="More in one batch stop the run.")
    ] = 100,
    group: Group = None,
    start: Start = "earliest",
    max_rows: MaxRows = 50_000,
) -> Any:
    """Send messages on to other topics: filtered, changed, enriched, split, merged."""
    ways = [given for given in (to, rules, sql, function) if given]
    if len(ways) != 1:
        raise typer.BadParameter("choose one of --to, --rules, --sql and --function")
    if to is not None:
        chosen: Any = [
            pipelines.Rule(
                to, where=where, payload=payload, key=key, headers=pairs(header, "--header")
            )
        ]
    elif rules is not None:
        chosen = pipelines.load_rules(rules)
    else:
        chosen = sql if sql is not None else find_object(str(function))
    return pipelines.route(
        topics,
        chosen,
        tables=pairs(table, "--table"),
        schema=schema,
        first_match=first_match,
        dead_letters=dead_letters,
        max_failures=max_failures,
        group=group,
        start=start,
        max_rows=max_rows,
        **run,
    )


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
