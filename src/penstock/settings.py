"""Every setting of the Python side: one typed object, read from arguments and `PENSTOCK_*`.

An argument wins over the environment, the environment over the default.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import psycopg
from psycopg.conninfo import conninfo_to_dict

from penstock.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LARGEST_POOL = 1000
# PostgreSQL would cut a longer name without a word.
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process was told.  Build it with `Settings.load()`."""

    dsn: str | None = None
    """The database; without one an embedded PostgreSQL is started."""

    data_dir: Path | None = None
    """Where the embedded server keeps its data; without one, the user's own data folder."""

    pool_size: int = 10
    """Connections a client holds at most: a claim is short, so ten serve many consumers."""

    claim_pool_size: int = 4
    """Connections for claims, at most: theirs commit without waiting for the disk, so few do."""

    pooler: bool = False
    """The DSN leads to pgbouncer in transaction mode: no LISTEN, no prepared statements."""

    retry_for: timedelta = timedelta(minutes=1)
    """How long a call goes on trying when the database is away: a fail-over takes seconds."""

    call_timeout: timedelta = timedelta(seconds=30)
    """How long the server may take for one call: none of ours waits, but a lock may be in its way.

    Housekeeping and deletions, which take the longer the more there is, may take an hour.
    """

    heartbeat: timedelta = timedelta(seconds=5)
    """After this much silence the listening connection is asked whether it lives."""

    connect_timeout: timedelta = timedelta(seconds=10)
    """How long to try for a connection: a fail-over refuses for a few seconds."""

    start_timeout: timedelta = timedelta(seconds=60)
    """How long the embedded server may take: recovery after a crash replays its log first."""

    application_name: str = "penstock"
    """The name under which sessions show up in pg_stat_activity."""

    def __post_init__(self) -> None:
        for check in (_check_dsn, _check_pool_size, _check_timeouts, _check_application_name):
            check(self)

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, **arguments: Any) -> Settings:
        """Read the environment, then let every argument that is not None win."""
        environ = os.environ if environ is None else environ
        given = {name: value for name, value in arguments.items() if value is not None}
        known = {field.name for field in fields(cls)}
        if unknown := given.keys() - known:
            raise InvalidSetting(
                f"there is no setting named {', '.join(sorted(unknown))}; "
                f"there are {', '.join(sorted(known))}"
            )
        return cls(**{**_from_environment(environ), **given})


class SettingsOptions(TypedDict, total=False):
    """What `connect()` takes, for editors and type checkers; `Settings` says what each means."""

    data_dir: Path | None
    pool_size: int | None
    claim_pool_size: int | None
    pooler: bool | None
    retry_for: timedelta | None
    call_timeout: timedelta | None
    heartbeat: timedelta | None
    connect_timeout: timedelta | None
    start_timeout: timedelta | None
    application_name: str | None


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return f"PENSTOCK_{name.upper()}"


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    present = {name: environ.get(variable(name), "") for name in _READERS}
    return {name: _read(name, text) for name, text in present.items() if text.strip()}


def _read(name: str, text: str) -> Any:
    try:
        return _READERS[name](text.strip())
    except ValueError as exc:
        raise InvalidSetting(f"{variable(name)} is {text!r}: {exc}") from None


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("a whole number is needed") from None


def _seconds(text: str) -> timedelta:
    try:
        return timedelta(seconds=float(text))
    except (ValueError, OverflowError):
        raise ValueError("a number of seconds is needed") from None


def _yes_or_no(text: str) -> bool:
    match text.lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off":
            return False
        case _:
            raise ValueError("yes or no is needed")


def _folder(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as problem:
        raise ValueError(str(problem)) from None


_READERS: dict[str, Callable[[str], Any]] = {
    "dsn": str,
    "data_dir": _folder,
    "pool_size": _whole_number,
    "claim_pool_size": _whole_number,
    "pooler": _yes_or_no,
    "retry_for": _seconds,
    "call_timeout": _seconds,
    "heartbeat": _seconds,
    "connect_timeout": _seconds,
    "start_timeout": _seconds,
    "application_name": str,
}


def _check_dsn(settings: Settings) -> None:
    if settings.dsn is None:
        return
    if settings.dsn.lower().startswith(("mysql", "mariadb")):
        raise InvalidSetting(
            "topics and queues live in PostgreSQL, and the DSN names MySQL or MariaDB\n"
            "There are tasks on those: penstock task, or penstock.tasks.connect(dsn)."
        )
    try:
        conninfo_to_dict(settings.dsn)
    except UnicodeError:
        raise InvalidSetting("the DSN can't be read: it is no UTF-8 text") from None
    except psycopg.ProgrammingError as exc:
        # The DSN itself is not repeated: it may hold a password.
        raise InvalidSetting(
            f"the DSN can't be read: {_without_secrets(str(exc))}\n"
            "It looks like postgresql://user@host:5432/database or host=… dbname=…"
        ) from None


def _without_secrets(reason: str) -> str:
    """What libpq says, without the pieces of the DSN that it quotes."""
    return re.sub(r'"[^"]*"', '"…"', reason.strip())


def _check_pool_size(settings: Settings) -> None:
    for name in ("pool_size", "claim_pool_size"):
        value: object = getattr(settings, name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidSetting(f"{name} is {value!r}: a whole number is needed")
        if not 1 <= value <= _LARGEST_POOL:
            raise InvalidSetting(f"{name} is {value}: choose from 1 to {_LARGEST_POOL}")


def _check_timeouts(settings: Settings) -> None:
    limited = ("call_timeout", "heartbeat", "connect_timeout", "start_timeout")
    for name in ("retry_for", *limited):
        if not isinstance(span := getattr(settings, name), timedelta):
            raise InvalidSetting(
                f"{name} is {span!r}: give a timedelta, such as timedelta(seconds=3)"
            )
    for name in limited:
        value: timedelta = getattr(settings, name)
        if not timedelta(0) < value <= timedelta(hours=1):
            raise InvalidSetting(f"{name} is {value}: choose more than 0 seconds, at most an hour")
    if settings.retry_for < timedelta(0):
        raise InvalidSetting("retry_for must not be negative; 0 tries once")


def _check_application_name(settings: Settings) -> None:
    try:
        length = len(settings.application_name.encode())
    except UnicodeEncodeError:
        raise InvalidSetting("application_name is no UTF-8 text") from None
    if not 1 <= length <= _LONGEST_NAME:
        raise InvalidSetting(f"application_name must have 1 to {_LONGEST_NAME} bytes")
