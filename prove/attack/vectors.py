"""Signatures that are known: Amazon's published examples, and cases that botocore signs.

The published ones are of the suite for Signature Version 4: its key, its moment, its service.  No
package that we install ships the suite, so they were written down by hand, seven of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.sqs.auth import authentication
from penstock.sqs.auth.authentication import Verifier
from penstock.sqs.protocol.faults import Fault
from penstock.sqs.protocol.query_protocol import parameters
from penstock.sqs.protocol.sqs_request import Request, fold
from tests.sqs.raw import Raw, presigned, sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.sqs.auth.access_keys import AccessKey

ACCESS_KEY = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
MOMENT = "20150830T123600Z"
_SCOPE = f"{ACCESS_KEY}/20150830/us-east-1/service/aws4_request"
_NOW = datetime(2015, 8, 30, 12, 36, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class Published:
    """A request of the suite and its signature."""

    name: str
    signature: str
    method: str = "GET"
    target: str = "/"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


PUBLISHED = (
    Published("vanilla", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    Published(
        "vanilla POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b", "POST"
    ),
    Published(
        "order of a query",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        target="/?Param2=value2&Param1=value1",
    ),
    Published(
        "unreserved characters",
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
        target="/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz="
        "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    ),
    Published(
        "blanks around values",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        headers={"my-header1": " value1", "my-header2": ' "a   b   c"'},
    ),
    Published(
        "order of headers",
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
        "POST",
        headers={"my-header1": "value1"},
    ),
    Published(
        "a form",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        "POST",
        headers={"content-type": "application/x-www-form-urlencoded"},
        body=b"Param1=value1",
    ),
)


def judge_published() -> tuple[int, int]:
    """How many of the suite are accepted, and how many of those with another signature."""
    verifier = Verifier({ACCESS_KEY: SECRET}.get, now=lambda: _NOW)
    accepted = sum(_accepts(verifier, each) for each in PUBLISHED)
    forged = sum(_accepts(verifier, replace(each, signature=_other(each))) for each in PUBLISHED)
    return accepted, forged


def _other(each: Published) -> str:
    return each.signature[:-1] + ("0" if each.signature[-1] != "0" else "1")


def _accepts(verifier: Verifier, each: Published) -> bool:
    signed = {"host": "example.amazonaws.com", "x-amz-date": MOMENT, **each.headers}
    names = ";".join(sorted(signed))
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={_SCOPE}, SignedHeaders={names}, Signature={each.signature}"
    )
    path, _, query = each.target.partition("?")
    request = Request(each.method, path, query, signed, each.body, parameters=parameters(query))
    return _is_true(verifier, request, "service")


def hand_cases(key: AccessKey) -> Iterator[tuple[str, Raw]]:
    """Requests with something unusual in each place, as botocore signs them."""
    url = "http://h"
    for target in ("/", "/a%20b/c", "/a//b/../c/", "/%C3%BC", "/?b=2&a=1&a=0", "/?x=%2F%20y&z=&=q"):
        yield f"target {target}", sign(Raw(url, "POST", target, {"x-odd": "1"}, b"b"), key)
    for value in ("two   blanks", "  around  ", "", "a,b", "ü".encode().decode("latin-1")):
        yield f"header {value!r}", sign(Raw(url, headers={"x-odd": value}, body=b"{}"), key)
    for body in (b"", b"\x00\xff", b"x" * 10_000):
        yield f"body of {len(body)}", sign(Raw(url, headers={"x-odd": "1"}, body=body), key)
    for query in ("Action=ListQueues", "Action=ListQueues&QueueNamePrefix=a%20b%2Bc", "a=&b"):
        yield f"presigned {query}", presigned(url, query, key)


def judge_hand_cases(key: AccessKey) -> tuple[int, list[str]]:
    """How many cases there are, and which were refused or accepted with another secret."""
    right = Verifier({key.access_key: key.secret}.get)
    wrong = Verifier({key.access_key: f"{key.secret}x"}.get)
    problems, count = [], 0
    for name, made in hand_cases(key):
        count += 1
        path, _, query = made.target.partition("?")
        headers = [
            (name.lower().encode(), value.encode("latin-1")) for name, value in made.headers.items()
        ]
        headers.append((b"host", b"h"))
        request = Request(made.method, path, query, fold(headers), made.body)
        request = request._replace(parameters=parameters(query))
        if not _is_true(right, request, "sqs"):
            problems.append(f"refused: {name}")
        if _is_true(wrong, request, "sqs"):
            problems.append(f"accepted with another secret: {name}")
    return count, problems


def _is_true(verifier: Verifier, request: Request, service: str) -> bool:
    claim = authentication.claim_of(request)
    assert claim is not None
    try:
        verifier.check(request, claim, service)
    except Fault:
        return False
    return True
