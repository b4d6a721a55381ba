"""The parsers of the SQS door: both protocols, signatures, addresses, policies, key files."""

from __future__ import annotations

import json
import os
from typing import Any

from penstock.errors import InvalidSetting
from penstock.sqs.auth import authentication, key_storage, queue_policy
from penstock.sqs.auth.access_keys import AccessKey
from penstock.sqs.auth.authentication import Verifier
from penstock.sqs.auth.key_storage import Seal
from penstock.sqs.protocol import json_protocol, query_protocol, queue_names, sqs_request
from penstock.sqs.protocol.faults import Fault
from penstock.sqs.protocol.sqs_model import ACTIONS
from penstock.sqs.protocol.sqs_request import Request, fold
from prove.attack.sqs_samples import FORMS, KEY_FILES, POLICIES, REQUESTS, URLS
from prove.attack.targets import Target, in_memory, text_of

KEY = AccessKey("AKIAFUZZ", "fuzzed-secret")
# The moment at which the samples were signed.
NOW = 1_767_225_600.0
_REGION = "us-east-1"
_ACTIONS = tuple(sorted(ACTIONS))
_VERIFIER = Verifier({KEY.access_key: KEY.secret}.get, now=lambda: NOW)
_SEAL = Seal(b"k" * 32)
_SCOPE = f"{KEY.access_key}/20260101/us-east-1/sqs/aws4_request"
_QUESTION = queue_policy.Question(
    queue_policy.Caller("111111111111", "arn:aws:iam::111111111111:user/eve"),
    "SendMessage",
    "arn:aws:sqs:us-east-1:000000000000:orders",
    {"aws:sourceip": "10.1.2.3", "aws:currenttime": "2026-01-01T00:00:00+00:00", "aws:x": "7"},
)


def _json_request(data: bytes) -> object:
    """The first byte chooses the action, the rest is the body."""
    action = _ACTIONS[data[0] % len(_ACTIONS)] if data else _ACTIONS[0]
    return _called(action, json_protocol.read(action, data[1:]))


def _form_request(data: bytes) -> object:
    request = Request("POST", "/", "", {}, data)
    request = sqs_request.with_parameters(request, sqs_request.Protocol.QUERY)
    action = sqs_request.action_of(request)
    if action == sqs_request.STS_ACTION:
        return action
    return _called(action, query_protocol.read(action, request.parameters))


def _called(action: str, struct: Any) -> object:
    queue = sqs_request.queue_of(struct, KEY.account, _REGION)
    if queue is not None:
        _ = queue.is_valid, queue.engine_name, queue.arn
    return sqs_request.text_of(sqs_request.Call(action, struct, queue))


def _whole_request(data: bytes) -> object:
    """A line, headers and a body, as the connection hands them over once HTTP is read."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    words = first.split(b" ")
    method, target = words[0].decode("latin-1"), b" ".join(words[1:]).decode("latin-1")
    path, _, query = target.partition("?")
    headers = fold((name.lower(), value) for name, _, value in (x.partition(b":") for x in lines))
    request = Request(method, path, query, headers, body)
    protocol = sqs_request.protocol_of(request)
    request = sqs_request.with_parameters(request, protocol)
    action = sqs_request.action_of(request)
    claim = authentication.claim_of(request)
    if claim is not None:
        _VERIFIER.check(request, claim, "sqs")
    return sqs_request.text_of(sqs_request.read(request, action, protocol, KEY.account, _REGION))


def _authorization(data: bytes) -> object:
    value = data.decode("latin-1")
    headers = {"authorization": value, "host": "h", "x-amz-date": "20260101T000000Z"}
    return _checked(Request("POST", "/", "", headers, b"{}"))


def _presigned(data: bytes) -> object:
    query = data.decode("latin-1")
    given = query_protocol.parameters(query)
    return _checked(Request("GET", "/", query, {"host": "h"}, b"", parameters=given))


def _checked(request: Request) -> object:
    claim = authentication.claim_of(request)
    if claim is not None:
        _VERIFIER.check(request, claim, "sqs")
    return claim


def _address(data: bytes) -> object:
    text = text_of(data)
    found = queue_names.locate(text)
    arn = queue_names.locate_arn(text)
    queue = queue_names.QueueId(found.account or "0" * 12, found.region or "us-east-1", found.name)
    return arn, queue.is_valid, queue.engine_name


def _policy(data: bytes) -> object:
    # As the database keeps it: text, and nothing but.
    return queue_policy.decide(queue_policy.parse(data.decode("utf-8", "replace")), _QUESTION)


_KEYS = in_memory() / f"penstock-fuzz-keys-{os.getpid()}.toml"


def _key_file(data: bytes) -> object:
    if not _KEYS.exists():
        _KEYS.touch(mode=0o600)
    _KEYS.write_bytes(data)
    try:
        return key_storage.load_file(_KEYS, _SEAL)
    finally:
        _KEYS.unlink()


def _sealed(data: bytes) -> object:
    return _SEAL.open("AKIAFUZZ", text_of(data))


def _json_samples() -> tuple[bytes, ...]:
    return tuple(
        bytes([_ACTIONS.index(action)]) + json.dumps(request).encode()
        for action, request in REQUESTS.items()
    )


_AUTHORIZATION = (
    f"AWS4-HMAC-SHA256 Credential={_SCOPE}, SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
)
_QUERY = (
    f"Action=ListQueues&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={_SCOPE}"
    f"&X-Amz-Date=20260101T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host"
    f"&X-Amz-Signature={'0' * 64}"
)
_HEADS = (
    (
        b"POST /\nhost: h\nx-amz-target: AmazonSQS.SendMessage\ncontent-type: application/x-amz-"
        b'json-1.0\n\n{"QueueUrl": "http://h/000000000000/q", "MessageBody": "x"}'
    ),
    (
        b"POST /000000000000/q?Version=2012-11-05\nhost: h\ncontent-type: application/x-www-form-"
        b"urlencoded\n\nAction=SendMessage&MessageBody=x%20y"
    ),
    b"GET /?" + _QUERY.encode() + b"\nhost: h\n\n",
    b"POST /\nhost: h\nx-amz-date: 20260101T000000Z\nauthorization: " + _AUTHORIZATION.encode(),
)

TARGETS = (
    Target("sqs json", _json_request, (Fault,), _json_samples()),
    Target("sqs form", _form_request, (Fault,), FORMS),
    Target("sqs request", _whole_request, (Fault,), _HEADS),
    Target("authorization", _authorization, (Fault,), (_AUTHORIZATION.encode(),)),
    Target("presigned", _presigned, (Fault,), (_QUERY.encode(),)),
    Target("queue address", _address, (), URLS),
    Target("policy", _policy, (), POLICIES),
    Target("key file", _key_file, (InvalidSetting,), KEY_FILES),
    Target("sealed secret", _sealed, (InvalidSetting,), (_SEAL.seal("AKIAFUZZ", "s").encode(),)),
)
