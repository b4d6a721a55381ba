"""What is not signed right is refused, and changes nothing."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.sqs.auth import authentication
from penstock.sqs.protocol import faults
from penstock.sqs.protocol.query_protocol import parameters
from penstock.sqs.protocol.sqs_request import Request, fold
from tests.sqs import raw
from tests.sqs.running import ADMIN, Running

if TYPE_CHECKING:
    from collections.abc import Callable

CREATE = {"QueueName": "forged"}


def _damaged(header: str, change: Callable[[str], str]) -> Callable[[raw.Raw], None]:
    def damage(request: raw.Raw) -> None:
        name = next(each for each in request.headers if each.lower() == header)
        request.headers[name] = change(request.headers[name])

    return damage


def _without(header: str) -> Callable[[raw.Raw], None]:
    def damage(request: raw.Raw) -> None:
        del request.headers[next(each for each in request.headers if each.lower() == header)]

    return damage


def _set(**fields: Any) -> Callable[[raw.Raw], None]:
    def damage(request: raw.Raw) -> None:
        for name, value in fields.items():
            setattr(request, name, value)

    return damage


def _header(name: str, value: str) -> Callable[[raw.Raw], None]:
    return lambda request: request.headers.__setitem__(name, value)


DAMAGES = {
    "no signature": (_without("authorization"), "MissingAuthenticationToken", 403),
    "another body": (_set(body=b'{"QueueName": "forget"}'), "SignatureDoesNotMatch", 403),
    "another path": (_set(target="/000000000000/x"), "SignatureDoesNotMatch", 403),
    "an added query": (_set(target="/?a=1"), "SignatureDoesNotMatch", 403),
    "another action": (
        _damaged("x-amz-target", lambda _: "AmazonSQS.ListQueues"),
        "SignatureDoesNotMatch",
        403,
    ),
    "another content type": (
        _damaged("content-type", lambda _: "x/y"),
        "SignatureDoesNotMatch",
        403,
    ),
    "another date of the same day": (
        _damaged("x-amz-date", lambda date: date[:-2] + ("0Z" if date[-2] != "0" else "1Z")),
        "SignatureDoesNotMatch",
        403,
    ),
    "no date": (_without("x-amz-date"), "IncompleteSignature", 400),
    "a date of another day than the scope": (
        _damaged("x-amz-date", lambda date: f"2020{date[4:]}"),
        "IncompleteSignature",
        400,
    ),
    "one bit of the signature": (
        _damaged("authorization", lambda text: text[:-1] + ("0" if text[-1] != "0" else "1")),
        "SignatureDoesNotMatch",
        403,
    ),
    "a short signature": (
        _damaged("authorization", lambda text: text[:-1]),
        "SignatureDoesNotMatch",
        403,
    ),
    "an empty signature": (
        _damaged("authorization", lambda text: re.sub("Signature=.*", "Signature=", text)),
        "IncompleteSignature",
        400,
    ),
    "a signature in capitals": (
        _damaged(
            "authorization",
            lambda text: (
                text[: text.index("Signature=") + 10]
                + text[text.index("Signature=") + 10 :].upper().replace("A", "B")
            ),
        ),
        "SignatureDoesNotMatch",
        403,
    ),
    "an unknown key": (
        _damaged("authorization", lambda text: text.replace(ADMIN.access_key, "AKIANOBODY")),
        "InvalidClientTokenId",
        403,
    ),
    "another region": (
        _damaged("authorization", lambda text: text.replace("us-east-1", "eu-west-1")),
        "SignatureDoesNotMatch",
        403,
    ),
    "another service": (
        _damaged("authorization", lambda text: text.replace("/sqs/", "/sns/")),
        "SignatureDoesNotMatch",
        403,
    ),
    "another algorithm": (
        _damaged("authorization", lambda text: text.replace("HMAC-SHA256", "HMAC-SHA1")),
        "IncompleteSignature",
        400,
    ),
    "a credential of three parts": (
        _damaged("authorization", lambda text: text.replace("/sqs/aws4_request", "")),
        "IncompleteSignature",
        400,
    ),
    "nonsense": (_damaged("authorization", lambda _: "Bearer x"), "IncompleteSignature", 400),
    "the host not signed": (
        _damaged("authorization", lambda text: text.replace("host;", "")),
        "SignatureDoesNotMatch",
        403,
    ),
    "the action not signed": (
        _damaged("authorization", lambda text: text.replace(";x-amz-target", "")),
        "SignatureDoesNotMatch",
        403,
    ),
    "an x-amz header added": (_header("x-amz-extra", "1"), "SignatureDoesNotMatch", 403),
    "a signed header that is not there": (
        _damaged("authorization", lambda text: text.replace("host;", "host;x-other;")),
        "SignatureDoesNotMatch",
        403,
    ),
    "another host": (_header("host", "elsewhere"), "SignatureDoesNotMatch", 403),
    "a session token": (_header("x-amz-security-token", "t"), "InvalidClientTokenId", 403),
    "something before the signature": (
        _damaged("authorization", lambda text: text.replace(" Signature=", "!Signature=")),
        "IncompleteSignature",
        400,
    ),
    "a blank that is none of HTTP's": (
        _damaged("content-type", lambda text: f"\xa0{text}"),
        "SignatureDoesNotMatch",
        403,
    ),
    "signed headers without end": (
        _damaged("authorization", lambda text: text.replace("host;", "host;" + "x;" * 2000)),
        "IncompleteSignature",
        400,
    ),
    "a region without end": (
        _damaged("authorization", lambda text: text.replace("us-east-1", "r" * 300)),
        "IncompleteSignature",
        400,
    ),
    "signed in two ways": (
        _set(target="/?X-Amz-Algorithm=AWS4-HMAC-SHA256"),
        "IncompleteSignature",
        400,
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_request_is_refused(door: Running, name: str) -> None:
    damage, code, status = DAMAGES[name]
    request = raw.signed(door.url, "CreateQueue", CREATE)
    damage(request)
    answer = request.send()
    assert (answer.code, answer.status) == (code, status), answer.body


def test_nothing_was_made_by_forged_requests(door: Running) -> None:
    assert raw.signed(door.url, "ListQueues", {}).send().json == {}


def test_the_undamaged_request_is_accepted(door: Running) -> None:
    assert raw.signed(door.url, "ListQueues", {}).send().status == 200


def test_a_wrong_secret_is_refused(door: Running) -> None:
    from penstock.sqs.auth.access_keys import AccessKey

    other = AccessKey(ADMIN.access_key, "guessed")
    answer = raw.signed(door.url, "ListQueues", {}, other).send()
    assert answer.code == "SignatureDoesNotMatch"


def test_a_declared_hash_of_the_body_is_not_believed(door: Running) -> None:
    unsigned = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
    request = raw.signed(door.url, "CreateQueue", CREATE, headers=unsigned)
    request.body = b'{"QueueName": "forget"}'
    assert request.send().code == "SignatureDoesNotMatch"


@pytest.mark.parametrize("query", ["Action=ListQueues", "Action=ListQueues&QueueNamePrefix=a%20b"])
def test_a_presigned_url_is_accepted(door: Running, query: str) -> None:
    answer = raw.presigned(door.url, query).send()
    assert (answer.status, b"ListQueuesResponse" in answer.body) == (200, True), answer.body


@pytest.mark.parametrize(
    "damage",
    [
        lambda target: target.replace("Action=ListQueues", "Action=DeleteQueue"),
        lambda target: target.replace("X-Amz-Expires=60", "X-Amz-Expires=600"),
        lambda target: target + "&QueueNamePrefix=x",
        lambda target: target[:-1] + ("0" if target[-1] != "0" else "1"),
    ],
    ids=["another action", "another end", "another parameter", "another signature"],
)
def test_a_changed_presigned_url_is_refused(door: Running, damage: Callable[[str], str]) -> None:
    request = raw.presigned(door.url, "Action=ListQueues")
    request.target = damage(request.target)
    assert request.send().code == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("name", "value"),
    [("Expires", "0"), ("Expires", "604801"), ("Expires", "-1"), ("Expires", "x"), ("Date", "now")],
)
def test_a_presigned_url_with_a_strange_time_is_incomplete(
    door: Running, name: str, value: str
) -> None:
    request = raw.presigned(door.url, "Action=ListQueues")
    request.target = re.sub(f"X-Amz-{name}=[^&]*", f"X-Amz-{name}={value}", request.target)
    assert request.send().code == "IncompleteSignature"


def _request(made: raw.Raw) -> Request:
    path, _, query = made.target.partition("?")
    headers = [(name.lower().encode(), value.encode()) for name, value in made.headers.items()]
    if not any(name == b"host" for name, _ in headers):
        headers.append((b"host", made.url.removeprefix("http://").encode()))
    return Request(made.method, path, query, fold(headers), made.body, parameters=parameters(query))


def _check_at(made: raw.Raw, moved: timedelta) -> None:
    verifier = authentication.Verifier(
        {ADMIN.access_key: ADMIN.secret}.get, now=lambda: time.time() + moved.total_seconds()
    )
    request = _request(made)
    claim = authentication.claim_of(request)
    assert claim is not None
    verifier.check(request, claim, "sqs")


@pytest.mark.parametrize("minutes", [-14, 0, 14])
def test_a_signature_is_good_for_a_quarter_of_an_hour(minutes: int) -> None:
    _check_at(raw.signed("http://h", "ListQueues", {}), timedelta(minutes=minutes))


@pytest.mark.parametrize("minutes", [-16, 16, 60 * 24 * 365])
def test_and_no_longer(minutes: int) -> None:
    with pytest.raises(faults.Fault) as caught:
        _check_at(raw.signed("http://h", "ListQueues", {}), timedelta(minutes=minutes))
    assert caught.value.query_code == "SignatureDoesNotMatch"


def test_a_presigned_url_ends_when_it_says() -> None:
    made = raw.presigned("http://h", "Action=ListQueues", expires=3600)
    _check_at(made, timedelta(minutes=59))
    with pytest.raises(faults.Fault):
        _check_at(made, timedelta(minutes=61))


@pytest.mark.parametrize(
    "target",
    ["/", "/000000000000/my-queue", "/a%20b/c", "/a//b/../c/", "/?b=2&a=1&a=0", "/?x=%2F%20y&z="],
)
def test_the_canonical_form_is_botocores(target: str) -> None:
    made = raw.Raw("http://h", "POST", target, {"x-odd": "  two   spaces  "}, b"body")
    _check_at(raw.sign(made), timedelta(0))


def test_signing_keys_are_forgotten_before_they_fill_the_memory() -> None:
    keys = authentication.SigningKeys()
    for number in range(authentication._MOST_KEYS + 10):
        keys.get("s", authentication.Scope("k", "20260101", f"r{number}", "sqs", ""))
    assert len(keys._derived) <= authentication._MOST_KEYS


def test_a_replaced_secret_derives_another_key() -> None:
    scope = authentication.Scope("k", "20260101", "r", "sqs", "")
    keys = authentication.SigningKeys()
    assert keys.get("old", scope) != keys.get("new", scope)
