"""How access keys are stored: in a TOML file, in the database, their secrets sealed.

SigV4 computes with the secret itself, so unlike a password it can't be kept as a hash.  It is
sealed with AES-256-GCM under a master key, which is in the server's environment and never in the
database: a dump or a stolen backup holds nothing that signs.  A sealed secret opens only for the
access key that it was sealed for.

A file looks like this:

[[key]]
access_key = "AKIAEXAMPLE"
secret = "…"                  # or sealed = "v1.…"
account = "000000000000"
role = "publisher"            # admin, publisher, consumer or monitor
queues = ["orders-*"]         # optional
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import secrets
import stat
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.client.calls import Call
from penstock.errors import InvalidSetting
from penstock.sqs.auth.access_keys import AccessKey, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MASTER_KEY = "PENSTOCK_SQS_MASTER_KEY"
_PREFIX = "v1."
_KEY_BYTES = 32
_NONCE_BYTES = 12
_FIELDS = {"access_key", "secret", "sealed", "account", "role", "queues", "name"}


class Seal:
    """Seals and opens secrets."""

    def __init__(self, master_key: bytes) -> None:
        if len(master_key) != _KEY_BYTES:
            raise InvalidSetting(
                f"{MASTER_KEY} must be {_KEY_BYTES} bytes in base64: "
                "make one with `openssl rand -base64 32`"
            )
        self._cipher = AESGCM(master_key)

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Seal | None:
        """The seal of `PENSTOCK_SQS_MASTER_KEY`, or of the file that `…_FILE` names."""
        environ = os.environ if environ is None else environ
        text = environ.get(MASTER_KEY, "")
        if not text and (path := environ.get(f"{MASTER_KEY}_FILE", "")):
            try:
                text = Path(path).read_text(encoding="utf-8")
            except OSError as problem:
                raise InvalidSetting(f"{MASTER_KEY}_FILE: {problem}") from None
        if not text.strip():
            return None
        try:
            return cls(base64.b64decode(text.strip(), validate=True))
        except binascii.Error:
            raise InvalidSetting(f"{MASTER_KEY} is not base64") from None

    def seal(self, access_key: str, secret: str) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, secret.encode(), access_key.encode())
        return _PREFIX + base64.b64encode(nonce + sealed).decode()

    def open(self, access_key: str, sealed: str) -> str:
        try:
            data = base64.b64decode(sealed.removeprefix(_PREFIX), validate=True)
            opened = self._cipher.decrypt(
                data[:_NONCE_BYTES], data[_NONCE_BYTES:], access_key.encode()
            )
        except (InvalidTag, ValueError):
            raise InvalidSetting(
                f"the secret of {access_key} was sealed under another master key, or for another "
                f"access key: see {MASTER_KEY}"
            ) from None
        return opened.decode()


def load_file(path: Path, seal: Seal | None) -> list[AccessKey]:
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


def file_entry(key: AccessKey, seal: Seal | None) -> str:
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
        secret=_opened(access_key, given.get("secret"), given.get("sealed"), seal),
        account=str(given.get("account", "000000000000")),
        role=Role.named(str(given.get("role", Role.ADMIN))),
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


def put_row(key: AccessKey, seal: Seal) -> Call[None]:
    """Add a key, or replace the one of the same id."""
    return Call(
        "select pgqs.put_access_key(%s, %s, %s, %s, %s, %s)",
        (
            key.access_key,
            seal.seal(key.access_key, key.secret),
            key.account,
            key.role.value,
            list(key.queues),
            key.name,
        ),
        lambda _rows: None,
    )


def delete_row(access_key: str) -> Call[bool]:
    """Delete a key; false: there was none."""
    return Call("select pgqs.delete_access_key(%s)", (access_key,), lambda rows: bool(rows[0][0]))


def list_rows() -> Call[Sequence[Sequence[Any]]]:
    """Every key as it is stored: id, sealed secret, account, role, queues, name."""
    return Call(
        "select access_key, sealed_secret, account, role, queues, name"
        " from pgqs.list_access_keys()",
        (),
        lambda found: found,
    )


def open_rows(found: Sequence[Sequence[Any]], seal: Seal | None) -> list[AccessKey]:
    """The keys, their secrets opened."""
    return [
        AccessKey(
            access_key=access_key,
            secret=_opened(access_key, None, sealed, seal),
            account=account,
            role=Role.named(word),
            queues=tuple(queues or ()),
            name=name or "",
        )
        for access_key, sealed, account, word, queues, name in found
    ]


def _opened(access_key: str, secret: str | None, sealed: str | None, seal: Seal | None) -> str:
    """The secret as SigV4 needs it."""
    if sealed is None:
        return secret or ""
    if seal is None:
        raise InvalidSetting(f"the secret of {access_key} is sealed: set {MASTER_KEY}")
    return seal.open(access_key, sealed)
