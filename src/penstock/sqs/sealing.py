"""How secrets lie in files and tables: sealed with AES-256-GCM under a master key.

SigV4 computes with the secret itself, so unlike a password it can't be kept as a hash.  The master
key stands in the server's environment and never in the database, so that a dump or a stolen backup
holds nothing that signs.  A sealed secret opens only for the access key it was sealed for.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from penstock.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "PENSTOCK_SQS_MASTER_KEY"
_PREFIX = "v1."
_KEY_BYTES = 32
_NONCE_BYTES = 12


class Seal:
    """Seals and opens secrets."""

    def __init__(self, master_key: bytes) -> None:
        if len(master_key) != _KEY_BYTES:
            raise InvalidSetting(
                f"{VARIABLE} must be {_KEY_BYTES} bytes in base64: "
                "make one with `openssl rand -base64 32`"
            )
        self._cipher = AESGCM(master_key)

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None) -> Seal | None:
        """The seal of `PENSTOCK_SQS_MASTER_KEY`, or of the file that `…_FILE` names."""
        environ = os.environ if environ is None else environ
        text = environ.get(VARIABLE, "")
        if not text and (path := environ.get(f"{VARIABLE}_FILE", "")):
            try:
                text = Path(path).read_text(encoding="utf-8")
            except OSError as problem:
                raise InvalidSetting(f"{VARIABLE}_FILE: {problem}") from None
        if not text.strip():
            return None
        try:
            return cls(base64.b64decode(text.strip(), validate=True))
        except binascii.Error:
            raise InvalidSetting(f"{VARIABLE} is not base64") from None

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
                f"access key: see {VARIABLE}"
            ) from None
        return opened.decode()
