"""Arguments and options that several commands share, and how the text of a value is read."""

from __future__ import annotations

import importlib
import json
import re
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

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
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
MessageNumber = Annotated[int, typer.Argument(metavar="ID", help="The message's id.")]
MessageNumbers = Annotated[list[int], typer.Argument(metavar="ID", help="The ids of the messages.")]
Token = Annotated[
    str, typer.Option("--token", "-t", metavar="TOKEN", help="The token that claimed it.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]
Host = Annotated[str, typer.Option(help="The address to listen on. Default: this machine only.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """The options of every command, as given before the noun; they may also stand at the end."""

    dsn: str | None = None
    json: bool = False


def duration_option(*names: str, help: str) -> typer.models.OptionInfo:  # noqa: A002 - typer's word
    option: typer.models.OptionInfo = typer.Option(
        *names, parser=duration, metavar="DURATION", help=help, show_default=False
    )
    return option


def duration(text: str) -> timedelta:
    """Read `90`, `30s`, `1.5h` or `1h30m`; a bare number is seconds."""
    text = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        text += "s"
    if not re.fullmatch(f"({_PART.pattern})+", text):
        raise typer.BadParameter(f"{text!r} is not a duration; write 500ms, 30s, 5m, 2h or 1d")
    try:
        return sum((float(n) * _UNITS[unit] for n, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long a time") from None


def headers(pairs: list[str]) -> dict[str, Any] | None:
    """Read `name=value` pairs; a value that is JSON keeps its type, anything else is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not a header; write name=value")
        found[name] = _json_or_text(value)
    return found or None


def _json_or_text(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def parse_json(text: str) -> Any:
    """Read strict JSON: NaN and Infinity, which Python would let pass, are refused."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def payload(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as problem:
        raise typer.BadParameter(
            f"the payload is not JSON ({problem}); to send it as plain text add --text"
        ) from None


def json_object(text: str, option: str) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except ValueError as problem:
        raise typer.BadParameter(f"not JSON: {problem}", param_hint=option) from None
    if not isinstance(value, dict):
        raise typer.BadParameter('a JSON object is needed: {"…": …}', param_hint=option)
    return value


def find_object(target: str) -> Any:
    """The object that `module:name` stands for; modules of the current folder are found too."""
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise unusable_target(
            f"{target!r} does not name a worker: write MODULE:NAME, such as shop:worker"
        )
    return _attribute(_imported(module_name), name, target)


def _imported(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        # One that the module itself misses is its own fault, and shown as such.
        if problem.name is None or not (name + ".").startswith(problem.name + "."):
            raise
        raise unusable_target(
            f"there is no module {problem.name!r} here or on the Python path"
        ) from None


def _attribute(module: Any, name: str, target: str) -> Any:
    try:
        for step in name.split("."):
            module = getattr(module, step)
    except AttributeError:
        raise unusable_target(f"{target}: the module has no {name!r}") from None
    return module


def unusable_target(problem: str) -> typer.BadParameter:
    return typer.BadParameter(problem, param_hint="WORKER")
