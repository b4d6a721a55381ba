"""The gateway: `handle(method, target, headers, body)` → status, headers, body.

Here a request is followed from top to bottom: read, check the signature, check the rights, call the
database, wait for messages if the client asked for that, answer.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from penstock.errors import (
    DatabaseUnavailable,
    DiskFull,
    EngineError,
    LogFull,
    OutcomeUnknown,
    PenstockError,
    QueueExpired,
    UnknownQueue,
    UnknownTopic,
)
from penstock.sqs.auth import authorization
from penstock.sqs.backend.call_batcher import Invocation
from penstock.sqs.backend.sqs_service import NOTHING, RECEIVE
from penstock.sqs.protocol import faults, json_protocol, query_protocol, sqs_request
from penstock.sqs.protocol.faults import Fault
from penstock.sqs.protocol.sqs_request import STS_ACTION, Call, Protocol, Request, fold, forwarded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.sqs.auth.authentication import Authenticator, Identity
    from penstock.sqs.backend.long_polls import Gone, Polls
    from penstock.sqs.backend.queue_facts import FactCache
    from penstock.sqs.backend.sqs_service import Service
    from penstock.sqs.http.request_metrics import RequestMetrics
    from penstock.sqs.protocol.queue_names import UrlStyle
    from penstock.sqs.server_options import Options

Headers = list[tuple[bytes, bytes]]

_log = logging.getLogger("penstock.sqs")
_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}", re.ASCII)
_DATA_EXCEPTION = "22"
# After these, what is remembered of the queue may be wrong.
_CHANGES = frozenset(
    {"AddPermission", "CreateQueue", "DeleteQueue", "RemovePermission", "SetQueueAttributes"}
)


class Response(NamedTuple):
    """The answer to a request."""

    status: int
    headers: Headers
    body: bytes


class RequestIds:
    """Ids that look like uuids: random for the process, counted within it."""

    def __init__(self) -> None:
        start = secrets.token_hex(10)
        self._start = f"{start[:8]}-{start[8:12]}-4{start[13:16]}-a{start[17:20]}-"
        self._numbers = itertools.count(secrets.randbits(40))

    def next(self) -> str:
        return f"{self._start}{next(self._numbers):012x}"


def never() -> asyncio.Future[None]:
    """For a client that can't hang up: a future that is never done."""
    return asyncio.get_running_loop().create_future()


class Gateway:
    """Reads, checks, calls the database, answers.  It has no sockets."""

    def __init__(
        self,
        *,
        options: Options,
        authenticator: Authenticator,
        service: Service,
        facts: FactCache,
        polls: Polls,
        metrics: RequestMetrics,
    ) -> None:
        self._options = options
        self._authenticator = authenticator
        self._service = service
        self._facts = facts
        self._polls = polls
        self._metrics = metrics
        self._ids = RequestIds()

    async def handle(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes,
        *,
        scheme: str = "http",
        client: str | None = None,
        gone: Gone = never,
    ) -> Response:
        """Answer one request; whatever happens, the answer is one that SDKs understand."""
        started = time.perf_counter()
        request_id = self._ids.next()
        protocol, action, wait = Protocol.QUERY, "", 0.0
        try:
            path, _, query = target.partition("?")
            request = Request(method, path, query, fold(headers), body, scheme, client)
            if self._options.behind_proxy:
                request = forwarded(request)
            protocol = sqs_request.protocol_of(request)
            request = sqs_request.with_parameters(request, protocol)
            action = sqs_request.action_of(request)
            answer, wait = await self._answer(request, action, protocol, request_id, gone)
        except Exception as problem:  # noqa: BLE001 - no client is to see a traceback
            fault = _fault(problem)
            response = refusal(fault, protocol, request_id)
            self._metrics.note(action, response.status, time.perf_counter() - started, fault)
        else:
            response = success(protocol, request_id, answer)
            self._metrics.note(action, 200, time.perf_counter() - started - wait, None)
        return response

    def refuse(self, fault: Fault, headers: Iterable[tuple[bytes, bytes]] = ()) -> Response:
        """The answer to a request that could not be read to its end."""
        wants_json = any(name == b"x-amz-target" for name, _ in headers)
        self._metrics.note("", fault.status, 0.0, fault)
        protocol = Protocol.JSON if wants_json else Protocol.QUERY
        return refusal(fault, protocol, self._ids.next())

    async def _answer(
        self, request: Request, action: str, protocol: Protocol, request_id: str, gone: Gone
    ) -> tuple[bytes, float]:
        """The body of the answer, and how long it waited for messages on purpose."""
        if action == STS_ACTION:
            key = self._authenticator.identify(request, "sts").key
            return query_protocol.write_identity(key.account, key.arn, key.user_id, request_id), 0.0
        identity = self._authenticator.identify(request, "sqs")
        account, region = identity.key.account, identity.region
        call = sqs_request.read(request, action, protocol, account, region)
        if self._options.auth:
            authorization.check(request, call, identity, await self._statements(call))
        context = context_of(request, identity, protocol, self._options)
        invocation = Invocation(sqs_request.text_of(call), context)
        answer, wait = await self._perform(call, invocation, gone)
        if action == "ListQueues" and identity.key.queues:
            answer = _reachable(answer, identity)
        if protocol is Protocol.QUERY:
            answer = query_protocol.write(action, msgspec.json.decode(answer), request_id)
        return answer, wait

    async def _statements(self, call: Call) -> Sequence[Mapping[str, Any]]:
        """The policy of the queue that a call is about."""
        if call.queue is None or call.action == authorization.CREATE:
            return ()
        facts = self._facts.known(call.queue) or await self._facts.find(call.queue)
        return () if facts is None else facts.statements

    async def _perform(self, call: Call, invocation: Invocation, gone: Gone) -> tuple[bytes, float]:
        answer = await self._service.call(call.action, call.queue, invocation)
        if call.queue is None:
            return answer, 0.0
        if call.action in _CHANGES:
            self._facts.forget(call.queue)
            self._polls.nudge(call.queue)
        if call.action != RECEIVE:
            return answer, 0.0
        if answer != NOTHING:
            self._polls.nudge(call.queue)
            return answer, 0.0
        seconds = call.request.WaitTimeSeconds
        if seconds is None:
            seconds = (await self._facts.get(call.queue)).wait_seconds
        if not seconds:
            return answer, 0.0
        began = time.perf_counter()
        answer = await self._polls.wait(call.queue, invocation, seconds, gone)
        return answer, time.perf_counter() - began


def context_of(request: Request, identity: Identity, protocol: Protocol, options: Options) -> bytes:
    """What the database is told besides the request, as JSON: the sender, and how URLs begin."""
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
        raise faults.malformed("The header Host is missing or can't be used.")
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


def success(protocol: Protocol, request_id: str, body: bytes) -> Response:
    """The answer to a request that was carried out."""
    return Response(200, _headers(protocol, request_id, len(body)), body)


def refusal(fault: Fault, protocol: Protocol, request_id: str) -> Response:
    """The answer to one that was not."""
    if protocol is Protocol.JSON:
        body = json_protocol.write_fault(fault)
    else:
        body = query_protocol.write_fault(fault, request_id)
    headers = _headers(protocol, request_id, len(body))
    kind = "Sender" if fault.is_senders else "Receiver"
    headers.append((b"x-amzn-query-error", f"{fault.query_code};{kind}".encode()))
    return Response(fault.status, headers, body)


def _headers(protocol: Protocol, request_id: str, length: int) -> Headers:
    kind = json_protocol.CONTENT_TYPE if protocol is Protocol.JSON else query_protocol.CONTENT_TYPE
    return [
        (b"content-type", kind),
        (b"content-length", b"%d" % length),
        (b"x-amzn-requestid", request_id.encode()),
    ]


def _reachable(answer: bytes, identity: Identity) -> bytes:
    """A list of queues without those that the key must not use."""
    found: dict[str, Any] = msgspec.json.decode(answer)
    urls = [
        url for url in found.get("QueueUrls", ()) if identity.key.reaches(url.rpartition("/")[2])
    ]
    found.pop("QueueUrls", None)
    return msgspec.json.encode(found | ({"QueueUrls": urls} if urls else {}))


def _fault(problem: Exception) -> Fault:
    match problem:
        case Fault():
            return problem
        case EngineError(code=code) if code is not None and code.startswith(_DATA_EXCEPTION):
            # A value that passed every check and that the database still can't hold.
            return faults.malformed("A value can't be stored.")
        case UnknownQueue() | UnknownTopic() | QueueExpired() | EngineError(code="23503"):
            # The queue was deleted while a request waited for it, or was about to change it (23503:
            # what the request wrote refers to a queue that is not there any more).
            return faults.no_queue()
        case DatabaseUnavailable() | OutcomeUnknown() | LogFull() | DiskFull():
            return faults.unavailable()
        case PenstockError():
            code = getattr(problem, "code", None)
            _log.error("a request failed: %s %s", type(problem).__name__, code or "")
            return faults.internal()
        case _:
            _log.error("a request failed", exc_info=problem)
            return faults.internal()
