"""Malformed, oversized, deep, half-sent and slow requests: 4xx, never 500, and nothing changes."""

from __future__ import annotations

import gzip
import json
import socket
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.sqs.protocol.sqs_model import ACTIONS
from tests.sqs import raw
from tests.sqs.running import Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator

FORM = "application/x-www-form-urlencoded"
BAD_ATTRIBUTE = (
    b"Action=SendMessage&QueueUrl=q&MessageBody=x&MessageAttribute.x.Name=a"
    b"&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=Binary"
    b"&MessageAttribute.1.Value.BinaryValue=*"
)

BODIES = {
    "nothing": b"",
    "not JSON": b"{",
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
    "not UTF-8": b'{"QueueUrl": "\xff\xfe"}',
    "a lone surrogate": b'{"QueueUrl": "q", "MessageBody": "\\ud800"}',
    "a NUL in the name": b'{"QueueUrl": "q\\u0000"}',
    "a NUL in the body": b'{"QueueUrl": "q", "MessageBody": "a\\u0000b"}',
    "a number for a text": b'{"QueueUrl": 7}',
    "a text for a number": b'{"QueueUrl": "q", "MessageBody": "x", "DelaySeconds": "soon"}',
    "a huge number": b'{"QueueUrl": "q", "MessageBody": "x", "DelaySeconds": 1' + b"0" * 400 + b"}",
    "a fraction": b'{"QueueUrl": "q", "MessageBody": "x", "DelaySeconds": 1.5}',
    "an exponent": b'{"QueueUrl": "q", "MessageBody": "x", "DelaySeconds": 1e999}',
    "a list for a map": b'{"QueueUrl": "q", "MessageBody": "x", "MessageAttributes": []}',
    "bad base64": b'{"QueueUrl": "q", "MessageBody": "x", "MessageAttributes":'
    b' {"a": {"DataType": "Binary", "BinaryValue": "*"}}}',
    "deep lists": b'{"x": ' + b"[" * 200_000,
    "deep maps": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "twice the same": b'{"QueueUrl": "q", "QueueUrl": "nowhere", "MessageBody": "x"}',
    "an endless text": b'{"QueueUrl": "' + b"q" * 100_000 + b'"}',
}


@pytest.fixture(scope="module")
def open_door(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server without signatures and with short deadlines."""
    with running(
        module_dsn,
        tmp_path_factory.mktemp("open"),
        auth=False,
        header_deadline=timedelta(seconds=0.3),
        body_deadline=timedelta(seconds=0.3),
    ) as found:
        sqs = found.boto3()
        sqs.create_queue(QueueName="q")
        sqs.close()
        yield found


@pytest.fixture(autouse=True)
def unchanged(open_door: Running) -> Iterator[None]:
    """Whatever a test sends, the one queue stays as it is."""
    yield
    assert _state(open_door) == {"queues": ["q"], "messages": "0"}


def _state(door: Running) -> dict[str, Any]:
    names = [url.rpartition("/")[2] for url in _ask(door, "ListQueues", {})["QueueUrls"]]
    wanted = {"QueueUrl": "q", "AttributeNames": ["ApproximateNumberOfMessages"]}
    [count] = _ask(door, "GetQueueAttributes", wanted)["Attributes"].values()
    return {"queues": names, "messages": count}


def _ask(door: Running, action: str, request: dict[str, Any]) -> Any:
    return raw.unsigned(door.url, action, request).send().json


@pytest.mark.parametrize("action", ["SendMessage", "CreateQueue", "TagQueue"])
@pytest.mark.parametrize("name", BODIES)
def test_a_strange_json_body_is_refused(open_door: Running, name: str, action: str) -> None:
    answer = raw.unsigned(open_door.url, action, BODIES[name]).send()
    assert 400 <= answer.status < 500, answer.body
    assert answer.json["__type"]
    assert answer.headers["x-amzn-requestid"]


@pytest.mark.parametrize(
    "form",
    [
        b"",
        b"Action",
        b"Action=",
        b"Action=Nonsense",
        b"Action=SendMessage",
        b"Action=SendMessage&QueueUrl=q&MessageBody=x&DelaySeconds=soon",
        b"Action=SendMessage&QueueUrl=%ff&MessageBody=x",
        b"Action=SendMessage&QueueUrl=q&MessageBody=%00",
        b"Action=SendMessage&QueueUrl=\xff",
        b"Action=SendMessage&QueueUrl=q&MessageBody=x&MessageAttribute.1.Name=a",
        BAD_ATTRIBUTE,
        b"Action=SendMessageBatch&QueueUrl=q&SendMessageBatchRequestEntry.1=x",
        b"Action=SendMessageBatch&QueueUrl=q" + b"&x" * 5000,
        b"Action=ChangeMessageVisibility&QueueUrl=q&VisibilityTimeout=99999999999999",
        b"Action=SendMessage&QueueUrl=q&" + b"MessageAttribute" + b".1" * 5000 + b"=x",
        b"Action=TagQueue&QueueUrl=nowhere&QueueUrl..x=1",
        b"Action=SendMessage&QueueUrl=nowhere&MessageBody=x&MessageAttribute.1.Name..x=1",
        b"Action=TagQueue&QueueUrl=q&Tag." + b"9" * 5000 + b".Key=x",
    ],
)
def test_a_strange_form_is_refused(open_door: Running, form: bytes) -> None:
    request = raw.Raw(open_door.url, headers={"content-type": FORM}, body=form)
    answer = request.send()
    assert 400 <= answer.status < 500, answer.body
    assert answer.body.startswith((b"<?xml", b"<Unknown"))


@pytest.mark.parametrize(
    "target",
    ["", "AmazonSQS.", "AmazonSQS.Nonsense", "SendMessage", "DynamoDB.PutItem", "AmazonSQS." * 50],
)
def test_an_unknown_target_is_refused(open_door: Running, target: str) -> None:
    request = raw.Raw(open_door.url, headers={"x-amz-target": target}, body=b"{}")
    assert request.send().status == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"])
def test_other_methods_are_refused(open_door: Running, method: str) -> None:
    assert raw.Raw(open_door.url, method).send().status == 405


def test_a_get_without_an_action_is_unknown(open_door: Running) -> None:
    answer = raw.Raw(open_door.url, "GET").send()
    assert (answer.status, answer.body) == (404, b"<UnknownOperationException/>")


@pytest.mark.parametrize("action", ["CreateQueue", "ListQueues"])
def test_an_action_on_the_account_is_not_for_a_queues_path(open_door: Running, action: str) -> None:
    target = f"/000000000000/q?Action={action}&QueueName=x"
    answer = raw.Raw(open_door.url, "GET", target).send()
    assert (answer.status, answer.code) == (400, "InvalidAction")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity"])
def test_compressed_requests_are_refused_unopened(open_door: Running, encoding: str) -> None:
    request = raw.unsigned(open_door.url, "SendMessage", gzip.compress(b"{}" + b" " * 10_000_000))
    request.headers["content-encoding"] = encoding
    assert request.send().status == 415


def test_a_body_that_says_it_is_too_long_is_refused_unread(open_door: Running) -> None:
    with _connected(open_door) as client:
        client.sendall(_head("SendMessage", "content-length: 99999999999"))
        assert client.recv(100).startswith(b"HTTP/1.1 413")


def test_a_body_that_turns_out_too_long_is_refused(open_door: Running) -> None:
    with _connected(open_door) as client:
        client.sendall(_head("SendMessage", "transfer-encoding: chunked"))
        piece = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
        answer = b""
        try:
            for _ in range(20):
                client.sendall(piece)
        except OSError:
            pass
        answer = client.recv(100)
        assert answer.startswith(b"HTTP/1.1 413")


def test_a_body_that_stops_half_way_times_out(open_door: Running) -> None:
    with _connected(open_door) as client:
        client.sendall(_head("SendMessage", "content-length: 100") + b'{"QueueUrl": "q", ')
        assert client.recv(100).startswith(b"HTTP/1.1 408")


def test_a_head_that_stops_half_way_times_out(open_door: Running) -> None:
    with _connected(open_door) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-tar")
        assert client.recv(100).startswith(b"HTTP/1.1 408")


def test_a_second_head_that_stops_half_way_times_out_too(open_door: Running) -> None:
    with _connected(open_door) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(100_000).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET /metr")
        answer = client.recv(100_000)
        while answer and b"HTTP/1.1 408" not in answer:
            answer = client.recv(100_000)
        assert b"HTTP/1.1 408" in answer


def test_silence_times_out(open_door: Running) -> None:
    with _connected(open_door) as client:
        assert client.recv(100).startswith(b"HTTP/1.1 408")


def test_an_endless_head_is_refused(open_door: Running) -> None:
    with _connected(open_door) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\nx-long: " + b"x" * 100_000)
        assert client.recv(100).startswith(b"HTTP/1.1 431")


def test_a_client_that_leaves_half_way_harms_nobody(open_door: Running) -> None:
    for _ in range(20):
        with _connected(open_door) as client:
            client.sendall(_head("SendMessage", "content-length: 100") + b'{"QueueUrl": "q", ')


@pytest.mark.parametrize(
    "lines",
    [
        b"NONSENSE\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\nabc",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nx-amz-target: AmazonSQS.ListQueues\r\ncontent-length: 2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\nhost: a\r\nhost: b\r\ncontent-length: 0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a b<x>\r\nx-amz-target: AmazonSQS.ListQueues\r\n\r\n",
    ],
)
def test_broken_http_is_a_bad_request(open_door: Running, lines: bytes) -> None:
    with _connected(open_door) as client:
        client.sendall(lines)
        assert client.recv(100).startswith(b"HTTP/1.1 4")


def test_an_address_that_is_too_long_is_refused(open_door: Running) -> None:
    target = f"/{'x' * 3000}?Action=ListQueues"
    assert raw.Raw(open_door.url, "GET", target).send().status == 400


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
_members = st.sampled_from(
    [
        "QueueUrl",
        "QueueName",
        "MessageBody",
        "Entries",
        "Attributes",
        "MessageAttributes",
        "Tags",
        "ReceiptHandle",
        "TaskHandle",
        "SourceArn",
        "MaxResults",
        "VisibilityTimeout",
        "Label",
    ]
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    action=st.sampled_from(sorted(set(ACTIONS) - {"CreateQueue", "DeleteQueue"})),
    request=st.dictionaries(_members, _json, max_size=4),
)
def test_no_json_at_all_makes_the_server_fail(
    open_door: Running, action: str, request: dict[str, Any]
) -> None:
    answer = raw.unsigned(open_door.url, action, json.dumps(request).encode()).send()
    assert answer.status < 500, answer.body


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    action=st.sampled_from(sorted(set(ACTIONS) - {"CreateQueue", "DeleteQueue"})),
    pairs=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "QueueUrl",
                    "MessageBody",
                    "Attribute.1.Name",
                    "Attribute.1",
                    "Tag.1.Key",
                    "Tag",
                    "MaxResults",
                    "SendMessageBatchRequestEntry.1.Id",
                    "DeleteMessageBatchRequestEntry.0.Id",
                    "MessageAttribute.1.Name",
                    "MessageAttribute.1.Value.DataType",
                ]
            ),
            st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace").decode()),
        ),
        max_size=6,
    ),
)
def test_no_form_at_all_makes_the_server_fail(
    open_door: Running, action: str, pairs: list[tuple[str, str]]
) -> None:
    text = "&".join(f"{name}={quote(value)}" for name, value in [("Action", action), *pairs])
    request = raw.Raw(open_door.url, headers={"content-type": FORM}, body=text.encode())
    assert request.send().status < 500


def _connected(door: Running) -> socket.socket:
    place = urlsplit(door.url)
    assert place.hostname is not None
    return socket.create_connection((place.hostname, place.port or 0), timeout=30)


def _head(action: str, *lines: str) -> bytes:
    head = ["POST / HTTP/1.1", "host: x", f"x-amz-target: AmazonSQS.{action}", *lines]
    return "\r\n".join([*head, "", ""]).encode()
