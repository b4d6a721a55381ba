"""What a request says of its own signature, in a header or in a presigned URL."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from penstock.sqs import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.sqs.request import Request

ALGORITHM = "AWS4-HMAC-SHA256"
TERMINATOR = "aws4_request"
BLANKS = " \t"
LONGEST_PRESIGNED = timedelta(days=7)

_DATE_FORM = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SECONDS_FORM = re.compile(r"[0-9]{1,6}")
# Nobody is known yet when these are read, and what is read is remembered.
_LONGEST_CREDENTIAL = 256
_LONGEST_ANNOUNCED = 2048


class Scope(NamedTuple):
    """What a signature is good for."""

    access_key: str
    date: str
    region: str
    service: str
    text: str
    """All but the key, as it is signed."""


class Claim(NamedTuple):
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
    if len(authorization) > _LONGEST_ANNOUNCED:
        raise errors.incomplete_signature("The header Authorization is too long.")
    before, found, signature = authorization.rpartition("Signature=")
    if not found or "," in signature or not before.rstrip(BLANKS).endswith(","):
        before, signature = _with_signature_last(authorization)
    scope, names = _announced(before)
    if not signature:
        raise errors.incomplete_signature("Authorization header requires Signature.")
    date = headers.get("x-amz-date")
    if date is None:
        raise errors.incomplete_signature("The header X-Amz-Date is missing.")
    return _claim(scope, names, signature, date, token=headers.get("x-amz-security-token"))


def _with_signature_last(authorization: str) -> tuple[str, str]:
    """The header without its signature, and the signature, where it is not at the end."""
    parts = [part.strip(BLANKS) for part in authorization.split(",")]
    signed = [part for part in parts if part.startswith("Signature=")]
    rest = ", ".join(part for part in parts if part not in signed)
    return rest, signed[0].removeprefix("Signature=") if signed else ""


# A client says the same in each of its requests, so what was read once is kept.
@lru_cache(maxsize=1024)
def _announced(before: str) -> tuple[Scope, tuple[str, ...]]:
    """Scope and signed headers, from all of the header but the signature."""
    algorithm, _, rest = before.partition(" ")
    if algorithm != ALGORITHM:
        raise errors.incomplete_signature(f"The algorithm must be {ALGORITHM}.")
    parts = dict(part.strip(BLANKS).partition("=")[::2] for part in rest.split(","))
    missing = [name for name in ("Credential", "SignedHeaders") if not parts.get(name)]
    if missing:
        raise errors.incomplete_signature(f"Authorization header requires {', '.join(missing)}.")
    return _scope(parts["Credential"]), tuple(parts["SignedHeaders"].split(";"))


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
        _scope(given["X-Amz-Credential"]),
        tuple(given["X-Amz-SignedHeaders"].split(";")),
        given["X-Amz-Signature"],
        given["X-Amz-Date"],
        lasts=lasts,
        token=given.get("X-Amz-Security-Token"),
    )


def _claim(
    scope: Scope,
    signed_headers: tuple[str, ...],
    signature: str,
    date: str,
    *,
    lasts: timedelta | None = None,
    token: str | None = None,
) -> Claim:
    if date[:8] != scope.date or not _DATE_FORM.fullmatch(date):
        raise errors.incomplete_signature(
            "The date must look like 20260131T235959Z and agree with the credential's."
        )
    return Claim(scope, signed_headers, signature, date, lasts, token)


def _scope(credential: str) -> Scope:
    parts = credential.split("/", 5)
    too_long = len(credential) > _LONGEST_CREDENTIAL
    if too_long or len(parts) != 5 or parts[4] != TERMINATOR or not all(parts):  # noqa: PLR2004
        raise errors.incomplete_signature(
            "Credential must be <access key>/<date>/<region>/<service>/aws4_request."
        )
    access_key, date, region, service, _ = parts
    return Scope(access_key, date, region, service, "/".join(parts[1:]))
