"""Signing keys, derived once per access key, day, region and service."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.sqs.signature_claim import Scope

_MOST = 4096


def derive(secret: str, date: str, region: str, service: str) -> bytes:
    """SigV4's chain of four."""
    key = f"AWS4{secret}".encode()
    for word in (date, region, service, "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    return key


class SigningKeys:
    """Remembers what it derived: it would be two thirds of the work of a check."""

    def __init__(self) -> None:
        self._derived: dict[tuple[str, Scope], bytes] = {}

    def get(self, secret: str, scope: Scope) -> bytes:
        # The secret is part of the name, so that a key that was replaced is derived anew.
        name = (secret, scope)
        key = self._derived.get(name)
        if key is None:
            if len(self._derived) >= _MOST:
                # Regions are the client's words: without a bound they could fill the memory.
                self._derived.clear()
            key = self._derived[name] = derive(secret, scope.date, scope.region, scope.service)
        return key
