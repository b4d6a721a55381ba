"""Access keys in a TOML file.

[[key]]
access_key = "AKIAEXAMPLE"
secret = "…"                  # or sealed = "v1.…", see sealing.py
account = "000000000000"
role = "publisher"            # admin, publisher, consumer or monitor
queues = ["orders-*"]         # optional
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidSetting
from penstock.sqs.keys import AccessKey, Role
from penstock.sqs.sealing import VARIABLE, Seal

if TYPE_CHECKING:
    from pathlib import Path

_FIELDS = {"access_key", "secret", "sealed", "account", "role", "queues", "name"}


def load(path: Path, seal: Seal | None) -> list[AccessKey]:
    """The keys of a file."""
    try:
        with path.open("rb") as file:
            readable_by = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077
            found = tomllib.load(file)
    except (OSError, ValueError, RecursionError) as problem:
        raise InvalidSetting(f"the key file {path} can't be read: {problem}") from None
    entries = found.get("key", [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise InvalidSetting(f"{path}: each key is a table of its own and begins with [[key]]")
    if readable_by and any("secret" in each for each in entries):
        raise InvalidSetting(
            f"{path} holds secrets and others may read it: chmod 600 {path}, or seal them"
        )
    return [_key(each, path, seal) for each in entries]


def entry(key: AccessKey, seal: Seal | None) -> str:
    """The lines of a key, its secret sealed if there is a seal."""
    secret = (
        f"secret = {json.dumps(key.secret)}"
        if seal is None
        else f"sealed = {json.dumps(seal.seal(key.access_key, key.secret))}"
    )
    lines = [
        "[[key]]",
        f"access_key = {json.dumps(key.access_key)}",
        secret,
        f"account = {json.dumps(key.account)}",
        f"role = {json.dumps(key.role.value)}",
    ]
    if key.queues:
        lines.append(f"queues = {json.dumps(list(key.queues))}")
    if key.name:
        lines.append(f"name = {json.dumps(key.name)}")
    return "\n".join(lines) + "\n"


def _key(given: dict[str, Any], path: Path, seal: Seal | None) -> AccessKey:
    if unknown := given.keys() - _FIELDS:
        raise InvalidSetting(f"{path}: a key has no field named {', '.join(sorted(unknown))}")
    _check_types(given, path)
    access_key = str(given.get("access_key", ""))
    return AccessKey(
        access_key=access_key,
        secret=opened(access_key, given.get("secret"), given.get("sealed"), seal),
        account=str(given.get("account", "000000000000")),
        role=role(str(given.get("role", Role.ADMIN))),
        queues=tuple(given.get("queues", ())),
        name=str(given.get("name", "")),
    )


def _check_types(given: dict[str, Any], path: Path) -> None:
    for name, value in given.items():
        if name != "queues" and not isinstance(value, str):
            raise InvalidSetting(f"{path}: {name} of a key must be a text in quotes")
    queues = given.get("queues", [])
    # A text would be taken for a list of its characters, and "*" is among them.
    if not isinstance(queues, list) or not all(isinstance(each, str) for each in queues):
        raise InvalidSetting(f'{path}: queues of a key must be a list, such as ["orders-*"]')


def opened(access_key: str, secret: str | None, sealed: str | None, seal: Seal | None) -> str:
    """The secret as SigV4 needs it."""
    if sealed is None:
        return secret or ""
    if seal is None:
        raise InvalidSetting(f"the secret of {access_key} is sealed: set {VARIABLE}")
    return seal.open(access_key, sealed)


def role(word: str) -> Role:
    try:
        return Role(word)
    except ValueError:
        raise InvalidSetting(
            f"{word!r} is no role: choose {', '.join(each.value for each in Role)}"
        ) from None
