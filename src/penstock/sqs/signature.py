"""Signature Version 4, checked in full: as a header, and as a presigned URL.

Everything is computed from what was received.  The body's own bytes are hashed, whatever a header
says of them; the host, the date and every `x-amz-` header must be among what was signed, so that
nobody on the way can turn one action into another.
"""

from __future__ import annotations

import hmac
import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.sqs import errors
from penstock.sqs.canonical import string_to_sign
from penstock.sqs.signing_keys import SigningKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.sqs.request import Request
    from penstock.sqs.signature_claim import Claim

TOLERANCE = timedelta(minutes=15)

_DATE = "%Y%m%dT%H%M%SZ"
_SIGNATURE_FORM = re.compile(r"[0-9a-f]{64}")


@lru_cache(maxsize=1024)
def _moment(date: str) -> float:
    try:
        return datetime.strptime(date, _DATE).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise errors.incomplete_signature(f"{date} is not a date.") from None


class Verifier:
    """Checks signatures; `secret_of` knows the secret of each access key."""

    def __init__(
        self,
        secret_of: Callable[[str], str | None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._secret_of = secret_of
        self._now = now
        self._keys = SigningKeys()

    def check(self, request: Request, claim: Claim, service: str) -> None:
        """Return when the claim is true; raise the fault that a client should see otherwise."""
        secret = self._secret_of(claim.scope.access_key)
        if secret is None or claim.token is not None:
            raise errors.unknown_key()
        if claim.scope.service != service:
            raise errors.wrong_signature(
                f"Credential should be scoped to correct service: '{service}'."
            )
        self._check_time(claim)
        _check_coverage(request, claim)
        key = self._keys.get(secret, claim.scope)
        computed = hmac.digest(key, string_to_sign(request, claim).encode(), "sha256").hex()
        given = claim.signature
        if not _SIGNATURE_FORM.fullmatch(given) or not hmac.compare_digest(computed, given):
            raise errors.wrong_signature()

    def _check_time(self, claim: Claim) -> None:
        signed_at, now = _moment(claim.date), self._now()
        earliest = now - (claim.lasts or TOLERANCE).total_seconds()
        latest = now + TOLERANCE.total_seconds()
        if signed_at < earliest:
            raise errors.wrong_signature(
                f"Signature expired: {claim.date} is now earlier than {_written(earliest)}."
            )
        if signed_at > latest:
            raise errors.wrong_signature(
                f"Signature not yet current: {claim.date} is still later than {_written(latest)}."
            )


def _written(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):{_DATE}}"


def _check_coverage(request: Request, claim: Claim) -> None:
    signed = claim.signed_headers
    wanted = [name for name in request.headers if name.startswith("x-amz-") or name == "host"]
    if missing := [name for name in wanted if name not in signed]:
        raise errors.wrong_signature(f"{', '.join(sorted(missing))} must be a signed header.")
    if "host" not in signed:
        raise errors.wrong_signature("host must be a signed header.")
    if absent := [name for name in signed if name not in request.headers]:
        raise errors.wrong_signature(f"The signed header {min(absent)[:100]} is missing.")
