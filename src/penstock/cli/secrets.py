"""Keep passwords off the screen: libpq repeats whatever part of a DSN it could not use."""

from __future__ import annotations

import os
import re

import psycopg
from psycopg.conninfo import conninfo_to_dict

from penstock.errors import InvalidSetting
from penstock.settings import Settings, variable

# Shorter fragments are libpq's own words, such as "=".
_SHORTEST_SECRET = 3


def load_settings(dsn: str | None) -> Settings:
    try:
        return Settings.load(dsn=dsn)
    except InvalidSetting as problem:
        given = dsn or os.environ.get(variable("dsn"), "")
        raise InvalidSetting(without_secrets(str(problem), given)) from None


def without_secrets(text: str, dsn: str) -> str:
    """Blank the password and every quoted piece of the DSN that might be one."""
    password = _password(dsn)
    if password:
        text = text.replace(password, "…")
    for piece in re.findall(r'"([^"]*)"', text):
        if len(piece) >= _SHORTEST_SECRET and piece in dsn and not _is_public(piece, dsn):
            text = text.replace(f'"{piece}"', '"…"')
    return _without_tail_of_password(text, dsn)


def _without_tail_of_password(text: str, dsn: str) -> str:
    """A "@" in a password that was not percent-encoded puts the rest of it before the host."""
    host = str(_parts(dsn).get("host", ""))
    return text.replace(host, f"…@{host.rpartition('@')[2]}") if "@" in host else text


def _password(dsn: str) -> str | None:
    value = _parts(dsn).get("password")
    return str(value) if value else None


def _is_public(piece: str, dsn: str) -> bool:
    """Host, port, user and database help to mend the error; they may be shown."""
    parts = _parts(dsn)
    return piece in {str(parts.get(name)) for name in ("host", "port", "user", "dbname")}


def _parts(dsn: str) -> dict[str, object]:
    try:
        return dict(conninfo_to_dict(dsn))
    except (psycopg.ProgrammingError, UnicodeError):
        return {}
