"""What operators and data engineers hand over: settings, DSNs, command lines, files, options."""

from __future__ import annotations

import io
import json
import os
from typing import TYPE_CHECKING

import typer

from penstock.cli import arguments, message_publish
from penstock.cli.file_formats import LONGEST_LINE, Format, Lines
from penstock.cli.message_import import ImportFile
from penstock.cli.session import without_secrets
from penstock.client import outgoing
from penstock.errors import InvalidSetting, PayloadInvalid
from penstock.settings import Settings
from penstock.spark.source.option_names import InvalidOption
from penstock.spark.source.source_options import read_options, shape_options, write_options
from penstock.tasks import open_store
from penstock.tasks.errors import InvalidTask
from penstock.tasks.options import Tables
from penstock.tasks.stores.mysql_database import Address
from prove.attack.targets import Target, in_memory, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

_FILE = in_memory() / f"penstock-fuzz-import-{os.getpid()}"


def _settings(data: bytes) -> object:
    """`NAME=value` a line, as an environment has it."""
    lines = text_of(data).replace("\0", "").split("\n")
    pairs = (line.partition("=")[::2] for line in lines)
    return Settings.load({f"PENSTOCK_{name}": value for name, value in pairs})


def _dsn(data: bytes) -> object:
    text = text_of(data)
    without_secrets('libpq says "x"', text)
    return Settings(dsn=text)


def _task_dsn(data: bytes) -> object:
    text = text_of(data)
    return Address.parse(text) if text.startswith("m") else open_store(text)


def _tables(data: bytes) -> object:
    return Tables(tasks=text_of(data))


def _words(data: bytes) -> object:
    """The values of options: durations, headers, payloads."""
    text = text_of(data[1:])
    match data[0] % 3 if data else 0:
        case 0:
            return arguments.duration(text)
        case 1:
            return arguments.headers(text.split("\n"))
        case _:
            return arguments.payload(text)


def _imported(format_: Format, *, raw: bool) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        _FILE.write_bytes(data)
        try:
            return outgoing.lines(ImportFile("file", _FILE, format_, raw, LONGEST_LINE).messages())
        finally:
            _FILE.unlink()

    return parse


def _published(data: bytes) -> object:
    lines = Lines(io.StringIO(data.decode("utf-8", "replace")), "file", LONGEST_LINE, "--file")
    payloads = message_publish._payloads(lines, "file")  # noqa: SLF001
    return outgoing.lines(payload for payload, _ in payloads)


_KINDS = (
    lambda given: read_options(given, stream=False),
    lambda given: read_options(given, stream=True),
    write_options,
    shape_options,
)


def _spark(data: bytes) -> object:
    """The first byte says whether to read, to stream or to write; then `name=value` a line."""
    pairs = (line.partition("=")[::2] for line in text_of(data[1:]).split("\n"))
    return _KINDS[data[0] % len(_KINDS) if data else 0](dict(pairs))


_RECORD = {
    "payload": {"a": "ü"},
    "headers": {"h": 1},
    "key": "k",
    "priority": 3,
    "deliver_after": "2026-03-01T12:30:00+00:00",
    "id": 7,
}
_LINES = b"\n".join(json.dumps(each).encode() for each in (_RECORD, {"payload": None}))
_CSV = (
    b'payload,headers,key,priority,deliver_after\n"{""a"": 1}",,k,3,2026-03-01T12:30:00Z\n1,,,,\n'
)
_OPTIONS = (
    b"subscribe=a,b\nstartingOffsets=earliest\nmaxOffsetsPerTrigger=10\nmaxTriggerDelay=15m",
    b'subscribePattern=a.*\nstartingOffsets={"a": {"0": 23}}\nincludeHeaders=true\ngroup=g',
    b'topic=a\nstartingOffsets={"snap": "1:2:", "next": 7}\ncolumns=key,value\ntenant=t',
    b"topic=a\nstartingTimestamp=1767225600000\nendingTimestamp=2026-01-01T00:00:00Z",
    b"topic=a\ndelivery=at-least-once\nvalueFormat=text\ntxnAppId=a\ntxnVersion=1",
    b"entity=tasks\ntasksTable=s.t\nattemptsTable=u\nminPartitions=3",
)

TARGETS = (
    Target(
        "settings",
        _settings,
        (InvalidSetting,),
        (
            b"DSN=postgresql://u:p@h:5432/d\nPOOL_SIZE=5\nPOOLER=yes\nRETRY_FOR=1.5",
            b"DATA_DIR=~/x\nAPPLICATION_NAME=shop\nCALL_TIMEOUT=30\nHEARTBEAT=5",
        ),
    ),
    Target(
        "dsn",
        _dsn,
        (InvalidSetting,),
        (b"postgresql://u:p%40@h:5432/d?sslmode=require", b"host=h port=5432 password='a b'"),
    ),
    Target(
        "task dsn",
        _task_dsn,
        (InvalidSetting,),
        (b"mysql://u:p@h:3306/d?unix_socket=/x", b"mariadb+asyncmy://[::1]/d", b"memory:"),
    ),
    Target("table name", _tables, (InvalidTask,), (b"mq_tasks", b"jobs.mq_tasks")),
    Target(
        "option", _words, (typer.BadParameter,), (b"\x001h30m", b"\x01a=1\nb=x", b'\x02{"a":1}')
    ),
    Target(
        "import jsonl",
        _imported(Format.JSONL, raw=False),
        (typer.BadParameter, PayloadInvalid),
        (_LINES,),
    ),
    Target(
        "import csv",
        _imported(Format.CSV, raw=False),
        (typer.BadParameter, PayloadInvalid),
        (_CSV,),
    ),
    Target(
        "import raw csv",
        _imported(Format.CSV, raw=True),
        (typer.BadParameter, PayloadInvalid),
        (_CSV,),
    ),
    Target("publish --file", _published, (typer.BadParameter, PayloadInvalid), (_LINES,)),
    Target(
        "spark options",
        _spark,
        (InvalidOption,),
        tuple(bytes([number]) + text for text in _OPTIONS for number in range(len(_KINDS))),
    ),
)
