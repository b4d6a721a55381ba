"""What the database is told of a request besides the request: who, where, under which address."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from penstock.sqs import errors

if TYPE_CHECKING:
    from penstock.sqs.identity import Identity
    from penstock.sqs.names import UrlStyle
    from penstock.sqs.options import Options
    from penstock.sqs.request import Request
    from penstock.sqs.router import Protocol

_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}", re.ASCII)


def context_of(request: Request, identity: Identity, protocol: Protocol, options: Options) -> bytes:
    """The context of a request, as JSON."""
    headers = request.headers
    host = headers.get("host", "")
    if options.behind_proxy:
        host = headers.get("x-forwarded-host", host).partition(",")[0].strip()
    base_url = options.public_url or _base_url(request.scheme, host)
    context = _context(identity, protocol.value, options.url_style, base_url)
    trace = headers.get("x-amzn-trace-id")
    if trace is None:
        return context
    return context[:-1] + b',"trace_header":' + msgspec.json.encode(trace) + b"}"


@lru_cache(maxsize=1024)
def _base_url(scheme: str, host: str) -> str:
    if not _HOST.fullmatch(host) or scheme not in ("http", "https"):
        raise errors.malformed("The header Host is missing or can't be used.")
    return f"{scheme}://{host}"


# A client's requests differ in nothing of this.
@lru_cache(maxsize=1024)
def _context(identity: Identity, protocol: str, style: UrlStyle, base_url: str) -> bytes:
    return msgspec.json.encode(
        {
            "account": identity.key.account,
            "region": identity.region,
            "queue_url": style.pattern(base_url),
            "sender_id": identity.key.user_id,
            "protocol": protocol,
        }
    )
