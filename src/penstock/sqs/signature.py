"""Signature Version 4, checked in full: as a header, and as a presigned URL.

Everything is computed from what was received.  The body's own bytes are hashed, whatever a header
says of them; the host, the date and every `x-amz-` header must be among what was signed, so that
nobody on the way can turn one action into another.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from penstock.sqs import errors
from penstock.sqs.signing_keys import SigningKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.sqs.request import Request

ALGORITHM = "AWS4-HMAC-SHA256"
TERMINATOR = "aws4_request"
TOLERANCE = timedelta(minutes=15)
LONGEST_PRESIGNED = timedelta(days=7)

_DATE = "%Y%m%dT%H%M%SZ"
_DATE_FORM = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SIGNATURE_FORM = re.compile(r"[0-9a-f]{64}")
_SECONDS_FORM = re.compile(r"[0-9]{1,6}")
_SPACES = re.compile(r" +")
_SIGNATURE_PARAMETER = "X-Amz-Signature"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a signature is good for."""

    access_key: str
    date: str
    region: str
    service: str

    def __str__(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/{TERMINATOR}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request says of its own signature; nothing of it is believed yet."""

    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str
    date: str
    lasts: timedelta | None = None
    """Of a presigned URL: how long it is good for."""
    token: str | None = None


def read(request: Request) -> Claim | None:
    """The request's claim; None: it is not signed at all."""
    authorization = request.headers.get("authorization")
    presigned = "X-Amz-Algorithm" in request.parameters
    if authorization is not None and presigned:
        raise errors.incomplete_signature("The request is signed in two ways: choose one.")
    if authorization is not None:
        return _from_header(authorization, request.headers)
    return _from_query(request.parameters) if presigned else None


def _from_header(authorization: str, headers: Mapping[str, str]) -> Claim:
    algorithm, _, rest = authorization.partition(" ")
    if algorithm != ALGORITHM:
        raise errors.incomplete_signature(f"The algorithm must be {ALGORITHM}.")
    parts = dict(part.strip().partition("=")[::2] for part in rest.split(","))
    missing = [name for name in ("Credential", "SignedHeaders", "Signature") if not parts.get(name)]
    if missing:
        raise errors.incomplete_signature(f"Authorization header requires {', '.join(missing)}.")
    date = headers.get("x-amz-date")
    if date is None:
        raise errors.incomplete_signature("The header X-Amz-Date is missing.")
    return _claim(
        parts["Credential"],
        parts["SignedHeaders"],
        parts["Signature"],
        date,
        token=headers.get("x-amz-security-token"),
    )


def _from_query(given: Mapping[str, str]) -> Claim:
    names = ("Credential", "SignedHeaders", "Signature", "Date", "Expires")
    missing = [f"X-Amz-{name}" for name in names if not given.get(f"X-Amz-{name}")]
    if given["X-Amz-Algorithm"] != ALGORITHM or missing:
        raise errors.incomplete_signature(
            f"A presigned URL needs {', '.join(missing) or f'the algorithm {ALGORITHM}'}."
        )
    if not _SECONDS_FORM.fullmatch(given["X-Amz-Expires"]):
        raise errors.incomplete_signature("X-Amz-Expires must be from 1 to 604800 seconds.")
    lasts = timedelta(seconds=int(given["X-Amz-Expires"]))
    if not timedelta(0) < lasts <= LONGEST_PRESIGNED:
        raise errors.incomplete_signature("X-Amz-Expires must be from 1 to 604800 seconds.")
    return _claim(
        given["X-Amz-Credential"],
        given["X-Amz-SignedHeaders"],
        given["X-Amz-Signature"],
        given["X-Amz-Date"],
        lasts=lasts,
        token=given.get("X-Amz-Security-Token"),
    )


def _claim(
    credential: str,
    signed_headers: str,
    signature: str,
    date: str,
    *,
    lasts: timedelta | None = None,
    token: str | None = None,
) -> Claim:
    scope, headers = _scope(credential), _names(signed_headers)
    if not _DATE_FORM.fullmatch(date) or date[:8] != scope.date:
        raise errors.incomplete_signature(
            "The date must look like 20260131T235959Z and agree with the credential's."
        )
    return Claim(scope, headers, signature, date, lasts, token)


# A client says the same in each of its requests, so what was read once is kept.
@lru_cache(maxsize=1024)
def _scope(credential: str) -> Scope:
    parts = credential.split("/")
    if len(parts) != 5 or parts[4] != TERMINATOR or not all(parts):  # noqa: PLR2004
        raise errors.incomplete_signature(
            "Credential must be <access key>/<date>/<region>/<service>/aws4_request."
        )
    return Scope(*parts[:4])


@lru_cache(maxsize=1024)
def _names(signed_headers: str) -> tuple[str, ...]:
    return tuple(signed_headers.split(";"))


@lru_cache(maxsize=1024)
def _moment(date: str) -> datetime:
    try:
        return datetime.strptime(date, _DATE).replace(tzinfo=UTC)
    except ValueError:
        raise errors.incomplete_signature(f"{date} is not a date.") from None


class Verifier:
    """Checks signatures; `secret_of` knows the secret of each access key."""

    def __init__(
        self,
        secret_of: Callable[[str], str | None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
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
        signed_at = _moment(claim.date)
        now = self._now()
        earliest, latest = now - (claim.lasts or TOLERANCE), now + TOLERANCE
        if signed_at < earliest:
            raise errors.wrong_signature(
                f"Signature expired: {claim.date} is now earlier than {earliest:{_DATE}}."
            )
        if signed_at > latest:
            raise errors.wrong_signature(
                f"Signature not yet current: {claim.date} is still later than {latest:{_DATE}}."
            )


def _check_coverage(request: Request, claim: Claim) -> None:
    signed = set(claim.signed_headers)
    wanted = {name for name in request.headers if name.startswith("x-amz-")} | {"host"}
    if missing := wanted - signed:
        raise errors.wrong_signature(f"{', '.join(sorted(missing))} must be a signed header.")
    if absent := signed - request.headers.keys():
        raise errors.wrong_signature(f"The signed header {min(absent)[:100]} is missing.")


def string_to_sign(request: Request, claim: Claim) -> str:
    """What the signature is of."""
    digest = hashlib.sha256(canonical_request(request, claim).encode()).hexdigest()
    return f"{ALGORITHM}\n{claim.date}\n{claim.scope}\n{digest}"


def canonical_request(request: Request, claim: Claim) -> str:
    """The request in the one form that both sides can compute."""
    headers = "".join(
        f"{name}:{_SPACES.sub(' ', request.headers[name].strip())}\n"
        for name in claim.signed_headers
    )
    return "\n".join(
        (
            request.method,
            _canonical_path(request.path),
            _canonical_query(request.query, presigned=claim.lasts is not None),
            headers,
            ";".join(claim.signed_headers),
            hashlib.sha256(request.body).hexdigest(),
        )
    )


def _canonical_path(path: str) -> str:
    if path == "/":
        return path
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    normal = f"/{'/'.join(parts)}"
    if path.endswith("/") and parts:
        normal += "/"
    # The path is encoded once on the wire and once more here: so SigV4 wants it, but for S3.
    return quote(normal, safe="/~")


def _canonical_query(query: str, *, presigned: bool) -> str:
    if not query:
        return ""
    pairs = sorted(
        (_encoded(name), _encoded(value))
        for name, _, value in (part.partition("=") for part in query.split("&") if part)
    )
    return "&".join(
        f"{name}={value}"
        for name, value in pairs
        if not (presigned and name == _SIGNATURE_PARAMETER)
    )


def _encoded(text: str) -> str:
    return quote(unquote(text.replace("+", " ")), safe="-_.~")
