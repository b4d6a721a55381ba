"""penstock message publish: one payload from the command line or stdin, or a file of JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from penstock.cli import arguments
from penstock.cli.arguments import TopicName, duration_option
from penstock.cli.file_formats import BATCH_BYTES, LONGEST_LINE, MIB, Lines, MaxLine, size
from penstock.cli.session import Session
from penstock.client import calls
from penstock.models import Json

CHUNK = 500
EXAMPLE = "penstock message publish orders '{\"order\": 7}' --key customer-7 --delay 10s"


@dataclass(frozen=True, slots=True)
class Common:
    """What holds for every message of one command."""

    delay: timedelta | None
    headers: dict[str, Json] | None
    priority: int | None
    expires_after: timedelta | None
    correlation_id: str | None
    tenant_id: str | None

    def for_one(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def for_many(self) -> dict[str, Any]:
        """As arrays of one value, which the engine takes for every message."""
        named = zip(_PLURALS, self.__slots__, strict=True)
        values = ((plural, getattr(self, name)) for plural, name in named)
        return {plural: [value] for plural, value in values if value is not None}


_PLURALS = ("delays", "headers", "priorities", "expire_after", "correlation_ids", "tenant_ids")


def publish(
    session: Session,
    topic: TopicName,
    payload: Annotated[
        str | None,
        typer.Argument(metavar="PAYLOAD", help="JSON; without it, stdin.", show_default=False),
    ] = None,
    *,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="PATH", help="A file of JSON lines; - is stdin."),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Send the payload as plain text.")] = False,
    key: Annotated[str | None, typer.Option(help="What the message belongs to.")] = None,
    key_from: Annotated[
        str | None, typer.Option(metavar="FIELD", help="With --file: the field that holds the key.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(help="Higher goes first.", show_default=False)
    ] = None,
    delay: Annotated[
        timedelta | None, duration_option("--delay", help="Deliver it not before this has passed.")
    ] = None,
    expires_after: Annotated[
        timedelta | None, duration_option("--expires-after", help="Don't deliver it later.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Repeatable.")
    ] = None,
    dedupe_key: Annotated[
        str | None, typer.Option(help="Publish nothing if this was seen a short while ago.")
    ] = None,
    correlation_id: Annotated[str | None, typer.Option(help="Links messages together.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Whose message it is.")] = None,
    max_line: MaxLine = LONGEST_LINE,
) -> None:
    """Publish a message, or with --file one for each line: all of them or, on an error, none."""
    common = Common(
        delay, arguments.headers(header or []), priority, expires_after, correlation_id, tenant
    )
    if file is None:
        _refuse(key_from, "--key-from", "goes with --file")
        given = _payload(payload, text=text, most=max_line)
        _publish_one(session, topic, given, common, key=key, dedupe_key=dedupe_key)
    else:
        _refuse(payload, "PAYLOAD", "can't be combined with --file")
        _refuse(dedupe_key, "--dedupe-key", "can't be the same for every line of a file")
        with _opened(file) as (stream, length):
            payloads = _payloads(Lines(stream, file, max_line, "--file"), file)
            keys = Keys(key, key_from)
            _publish_many(session, topic, payloads, total=length, common=common, keys=keys)


def _refuse(value: str | None, name: str, reason: str) -> None:
    if value is not None:
        raise typer.BadParameter(reason, param_hint=name)


def _payload(argument: str | None, *, text: bool, most: int) -> Json:
    if argument is None and sys.stdin.isatty():
        raise typer.BadParameter("give one, pipe it in, or use --file", param_hint="PAYLOAD")
    given = sys.stdin.read(most * MIB + 1) if argument in (None, "-") else argument
    assert given is not None
    if size(given) > most * MIB:
        raise typer.BadParameter(
            f"it is longer than {most} MiB. --max-line sets another limit", param_hint="PAYLOAD"
        )
    return given if text else arguments.payload(given)


def _publish_one(
    session: Session,
    topic: str,
    payload: Json,
    common: Common,
    *,
    key: str | None,
    dedupe_key: str | None,
) -> None:
    number = session.run(
        calls.publish(topic, payload, key=key, dedupe_key=dedupe_key, **common.for_one())
    )
    session.output.done({"message_id": number, "topic": topic}, f"published message {number}")


@dataclass(frozen=True, slots=True)
class Keys:
    """Where the keys of a file's messages come from: one for all, or a field of each payload."""

    fixed: str | None
    field: str | None

    def of(self, payloads: list[Json]) -> list[str | None] | None:
        if self.field is None and self.fixed is None:
            return None
        return [self._of(payload) for payload in payloads]

    def _of(self, payload: Json) -> str | None:
        if self.field is None or not isinstance(payload, dict) or self.field not in payload:
            return self.fixed
        value = payload[self.field]
        return value if isinstance(value, str) else str(value)


def _publish_many(
    session: Session,
    topic: str,
    payloads: Iterator[tuple[Json, int]],
    *,
    total: int | None,
    common: Common,
    keys: Keys,
) -> None:
    published = 0
    with session.output.progress() as progress, session.transaction():
        task = progress.add_task(f"publishing to {topic}", total=total)
        for chunk, length in _chunks(payloads):
            session.run(calls.publish_many(topic, chunk, keys=keys.of(chunk), **common.for_many()))
            published += len(chunk)
            progress.advance(task, length)
    session.output.done({"topic": topic, "published": published}, f"published {published} messages")


@contextmanager
def _opened(path: str) -> Iterator[tuple[TextIO, int | None]]:
    """The file and its size in bytes; of stdin the size is not known."""
    if path == "-":
        yield sys.stdin, None
        return
    try:
        with Path(path).open(encoding="utf-8") as stream:
            yield stream, Path(path).stat().st_size
    except OSError as problem:
        raise typer.BadParameter(f"{path}: {problem.strerror}", param_hint="--file") from None


def _payloads(lines: Lines, path: str) -> Iterator[tuple[Json, int]]:
    """Each line's payload and its length in bytes; empty lines are passed over."""
    try:
        for line in lines:
            if line.strip():
                yield _payload_of(line, path, lines.number), size(line)
            lines.start_record()
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{path} is not UTF-8 text", param_hint="--file") from None


def _payload_of(line: str, path: str, number: int) -> Json:
    try:
        value: Json = arguments.parse_json(line)
    except ValueError as problem:
        raise typer.BadParameter(
            f"{path}, line {number} is not JSON ({problem}); nothing was published",
            param_hint="--file",
        ) from None
    return value


def _chunks(payloads: Iterable[tuple[Json, int]]) -> Iterator[tuple[list[Json], int]]:
    """Payloads that are sent together, with their length in bytes."""
    chunk: list[Json] = []
    length = 0
    for payload, more in payloads:
        chunk.append(payload)
        length += more
        if len(chunk) == CHUNK or length >= BATCH_BYTES:
            yield chunk, length
            chunk, length = [], 0
    if chunk:
        yield chunk, length
