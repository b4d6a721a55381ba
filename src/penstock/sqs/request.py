"""One HTTP request as the door sees it, whatever server carried it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.sqs import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Two of these would let one part of the way read the first and another the second.
_SINGLE = frozenset(
    {"authorization", "host", "content-type", "x-amz-date", "x-amz-target", "x-amz-security-token"}
)


class Request(NamedTuple):
    """Names of headers are lowercase; the path and the query string are as they were sent."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    scheme: str = "http"
    client: str | None = None
    """The address that the request came from."""
    parameters: Mapping[str, str] = {}
    """Of the query string and, in the query protocol, of the form."""


def fold(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by their (lowercase) name; a repeated one is one with commas, as HTTP has it."""
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1")
        value = raw_value.decode("latin-1")
        if name in found:
            if name in _SINGLE:
                raise errors.malformed(f"The header {name} is there twice.")
            value = f"{found[name]},{value}"
        found[name] = value
    return found


def forwarded(request: Request) -> Request:
    """The request as the client sent it to the proxy, if the proxy is to be believed."""
    first = {
        name: request.headers.get(f"x-forwarded-{name}", "").partition(",")[0].strip()
        for name in ("for", "proto")
    }
    return request._replace(
        client=first["for"] or request.client, scheme=first["proto"] or request.scheme
    )
