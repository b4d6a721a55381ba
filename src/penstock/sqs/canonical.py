"""The one form of a request that both sides of a signature can compute."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from penstock.sqs.signature_claim import ALGORITHM, BLANKS

if TYPE_CHECKING:
    from penstock.sqs.request import Request
    from penstock.sqs.signature_claim import Claim

_SPACES = re.compile(r" +")
_SIGNATURE_PARAMETER = "X-Amz-Signature"


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
        value = request.headers[name].strip(BLANKS)
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
