"""Who sends a request: by its checked signature or, where checks are off, by what it says.

Signature Version 4 is checked in full, as a header and as a presigned URL.  Everything is computed
from what was received.  The body's own bytes are hashed, whatever a header says of them; the host,
the date and every `x-amz-` header must be among what was signed, so that no party on the way can
turn one action into another.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from penstock.sqs.auth.access_keys import AccessKey
from penstock.sqs.protocol import faults
from penstock.sqs.protocol.queue_names import is_account

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.sqs.auth.access_keys import Keyring
    from penstock.sqs.protocol.sqs_request import Request
    from penstock.sqs.server_options import Options

ALGORITHM = "AWS4-HMAC-SHA256"
TERMINATOR = "aws4_request"
TOLERANCE = timedelta(minutes=15)
LONGEST_PRESIGNED = timedelta(days=7)

_BLANKS = " \t"
_SPACES = re.compile(r" +")
_DATE = "%Y%m%dT%H%M%SZ"
_DATE_FORM = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SECONDS_FORM = re.compile(r"[0-9]{1,6}")
_SIGNATURE_FORM = re.compile(r"[0-9a-f]{64}")
_SIGNATURE_PARAMETER = "X-Amz-Signature"
# These are read before the client is known, and what is read is remembered.
_LONGEST_CREDENTIAL = 256
_LONGEST_ANNOUNCED = 2048
_MOST_KEYS = 4096


class Identity(NamedTuple):
    """A key, and the region that the request was made for."""

    key: AccessKey
    region: str


class Authenticator:
    """Identifies the sender of a request, for both protocols."""

    def __init__(self, keyring: Keyring, options: Options) -> None:
        self._keyring = keyring
        self._options = options
        self._verifier = Verifier(keyring.secret_of)

    def identify(self, request: Request, service: str) -> Identity:
        """Raises the fault that a client should see when the signature is missing or wrong."""
        if not self._options.auth:
            return self._unchecked(request)
        claim = claim_of(request)
        if claim is None:
            raise faults.missing_token()
        self._verifier.check(request, claim, service)
        key = self._keyring.get(claim.scope.access_key)
        assert key is not None
        return Identity(key, claim.scope.region)

    def _unchecked(self, request: Request) -> Identity:
        """Account and region as the request says, without a check."""
        try:
            claim = claim_of(request)
        except faults.Fault:
            claim = None
        if claim is None:
            key = AccessKey("ANONYMOUS", "unsigned", self._options.account)
            return Identity(key, self._options.region)
        # As in other local servers, an access key of twelve digits is an account.
        name = claim.scope.access_key
        account = name if is_account(name) else self._options.account
        return Identity(AccessKey(name, "unsigned", account), claim.scope.region)


class Scope(NamedTuple):
    """What a signature is good for."""

    access_key: str
    date: str
    region: str
    service: str
    text: str
    """All but the key, as it is signed."""


class Claim(NamedTuple):
    """What a request says of its own signature; nothing of it is checked yet."""

    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str
    date: str
    lasts: timedelta | None = None
    """Of a presigned URL: how long it is good for."""
    token: str | None = None


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
            raise faults.unknown_key()
        if claim.scope.service != service:
            raise faults.wrong_signature(
                f"Credential should be scoped to correct service: '{service}'."
            )
        self._check_time(claim)
        _check_coverage(request, claim)
        key = self._keys.get(secret, claim.scope)
        computed = hmac.digest(key, string_to_sign(request, claim).encode(), "sha256").hex()
        given = claim.signature
        if not _SIGNATURE_FORM.fullmatch(given) or not hmac.compare_digest(computed, given):
            raise faults.wrong_signature()

    def _check_time(self, claim: Claim) -> None:
        signed_at, now = _moment(claim.date), self._now()
        earliest = now - (claim.lasts or TOLERANCE).total_seconds()
        latest = now + TOLERANCE.total_seconds()
        if signed_at < earliest:
            raise faults.wrong_signature(
                f"Signature expired: {claim.date} is now earlier than {_written(earliest)}."
            )
        if signed_at > latest:
            raise faults.wrong_signature(
                f"Signature not yet current: {claim.date} is still later than {_written(latest)}."
            )


@lru_cache(maxsize=1024)
def _moment(date: str) -> float:
    try:
        return datetime.strptime(date, _DATE).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise faults.incomplete_signature(f"{date} is not a date.") from None


def _written(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):{_DATE}}"


def _check_coverage(request: Request, claim: Claim) -> None:
    signed = claim.signed_headers
    wanted = [name for name in request.headers if name.startswith("x-amz-") or name == "host"]
    if missing := [name for name in wanted if name not in signed]:
        raise faults.wrong_signature(f"{', '.join(sorted(missing))} must be a signed header.")
    if "host" not in signed:
        raise faults.wrong_signature("host must be a signed header.")
    if absent := [name for name in signed if name not in request.headers]:
        raise faults.wrong_signature(f"The signed header {min(absent)[:100]} is missing.")


def claim_of(request: Request) -> Claim | None:
    """The request's claim; None: it is not signed at all."""
    authorization = request.headers.get("authorization")
    presigned = "X-Amz-Algorithm" in request.parameters
    if authorization is not None and presigned:
        raise faults.incomplete_signature("The request is signed in two ways: choose one.")
    if authorization is not None:
        return _from_header(authorization, request.headers)
    return _from_query(request.parameters) if presigned else None


def _from_header(authorization: str, headers: Mapping[str, str]) -> Claim:
    if len(authorization) > _LONGEST_ANNOUNCED:
        raise faults.incomplete_signature("The header Authorization is too long.")
    before, found, signature = authorization.rpartition("Signature=")
    if not found or "," in signature or not before.rstrip(_BLANKS).endswith(","):
        before, signature = _with_signature_last(authorization)
    scope, names = _announced(before)
    if not signature:
        raise faults.incomplete_signature("Authorization header requires Signature.")
    date = headers.get("x-amz-date")
    if date is None:
        raise faults.incomplete_signature("The header X-Amz-Date is missing.")
    return _claim(scope, names, signature, date, token=headers.get("x-amz-security-token"))


def _with_signature_last(authorization: str) -> tuple[str, str]:
    """The header without its signature, and the signature, where it is not at the end."""
    parts = [part.strip(_BLANKS) for part in authorization.split(",")]
    signed = [part for part in parts if part.startswith("Signature=")]
    rest = ", ".join(part for part in parts if part not in signed)
    return rest, signed[0].removeprefix("Signature=") if signed else ""


# A client says the same in each of its requests, so what was read once is kept.
@lru_cache(maxsize=1024)
def _announced(before: str) -> tuple[Scope, tuple[str, ...]]:
    """Scope and signed headers, from all of the header but the signature."""
    algorithm, _, rest = before.partition(" ")
    if algorithm != ALGORITHM:
        raise faults.incomplete_signature(f"The algorithm must be {ALGORITHM}.")
    parts = dict(part.strip(_BLANKS).partition("=")[::2] for part in rest.split(","))
    missing = [name for name in ("Credential", "SignedHeaders") if not parts.get(name)]
    if missing:
        raise faults.incomplete_signature(f"Authorization header requires {', '.join(missing)}.")
    return _scope(parts["Credential"]), tuple(parts["SignedHeaders"].split(";"))


def _from_query(given: Mapping[str, str]) -> Claim:
    names = ("Credential", "SignedHeaders", "Signature", "Date", "Expires")
    missing = [f"X-Amz-{name}" for name in names if not given.get(f"X-Amz-{name}")]
    if given["X-Amz-Algorithm"] != ALGORITHM or missing:
        raise faults.incomplete_signature(
            f"A presigned URL needs {', '.join(missing) or f'the algorithm {ALGORITHM}'}."
        )
    if not _SECONDS_FORM.fullmatch(given["X-Amz-Expires"]):
        raise faults.incomplete_signature("X-Amz-Expires must be from 1 to 604800 seconds.")
    lasts = timedelta(seconds=int(given["X-Amz-Expires"]))
    if not timedelta(0) < lasts <= LONGEST_PRESIGNED:
        raise faults.incomplete_signature("X-Amz-Expires must be from 1 to 604800 seconds.")
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
        raise faults.incomplete_signature(
            "The date must look like 20260131T235959Z and agree with the credential's."
        )
    return Claim(scope, signed_headers, signature, date, lasts, token)


def _scope(credential: str) -> Scope:
    parts = credential.split("/", 5)
    too_long = len(credential) > _LONGEST_CREDENTIAL
    if too_long or len(parts) != 5 or parts[4] != TERMINATOR or not all(parts):  # noqa: PLR2004
        raise faults.incomplete_signature(
            "Credential must be <access key>/<date>/<region>/<service>/aws4_request."
        )
    access_key, date, region, service, _ = parts
    return Scope(access_key, date, region, service, "/".join(parts[1:]))


def signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """SigV4's chain of four."""
    key = f"AWS4{secret}".encode()
    for word in (date, region, service, TERMINATOR):
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
            if len(self._derived) >= _MOST_KEYS:
                # Regions are the client's words: without a bound they could fill the memory.
                self._derived.clear()
            key = self._derived[name] = signing_key(secret, scope.date, scope.region, scope.service)
        return key


def string_to_sign(request: Request, claim: Claim) -> str:
    """What the signature is of."""
    digest = hashlib.sha256(canonical_request(request, claim).encode()).hexdigest()
    return f"{ALGORITHM}\n{claim.date}\n{claim.scope.text}\n{digest}"


def canonical_request(request: Request, claim: Claim) -> str:
    """The request in the one form that both sides can compute."""
    lines = [
        request.method,
        _canonical_path(request.path),
        _canonical_query(request.query, presigned=claim.lasts is not None),
    ]
    for name in claim.signed_headers:
        # Of HTTP's blanks alone: a header with another one was not signed so.
        value = request.headers[name].strip(_BLANKS)
        lines.append(f"{name}:{_SPACES.sub(' ', value) if '  ' in value else value}")
    lines += ["", ";".join(claim.signed_headers), hashlib.sha256(request.body).hexdigest()]
    return "\n".join(lines)


# A client that writes the queue into the path does so in each of its requests.
@lru_cache(maxsize=1024)
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
    # The path is encoded once on the wire and once more here: SigV4 demands it, except for S3.
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
