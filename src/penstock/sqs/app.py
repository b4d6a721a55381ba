"""The door itself: `handle(method, target, headers, body)` → status, headers, body."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import msgspec

from penstock.errors import DatabaseUnavailable, EngineError, OutcomeUnknown, PenstockError
from penstock.sqs import access, errors, router
from penstock.sqs.errors import Fault
from penstock.sqs.gather import Ask
from penstock.sqs.request import Request, fold
from penstock.sqs.router import STS_ACTION, Call, Protocol
from penstock.sqs.service import NOTHING, RECEIVE
from penstock.sqs.wire import json, query_xml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.sqs.facts import FactCache
    from penstock.sqs.identity import Gatekeeper, Identity
    from penstock.sqs.options import Options
    from penstock.sqs.polls import Gone, Polls
    from penstock.sqs.service import Service
    from penstock.sqs.watching import Watching

_log = logging.getLogger("penstock.sqs")
_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}", re.ASCII)
_DATA_EXCEPTION = "22"
# After these, what is remembered of the queue may be wrong.
_CHANGES = frozenset(
    {"AddPermission", "CreateQueue", "DeleteQueue", "RemovePermission", "SetQueueAttributes"}
)

Headers = list[tuple[bytes, bytes]]


class Response(NamedTuple):
    """What goes back."""

    status: int
    headers: Headers
    body: bytes


async def never() -> None:
    """The hang-up of a client that can't hang up."""
    await asyncio.Event().wait()


class Gateway:
    """Reads, checks, asks the database, answers.  Knows nothing of sockets."""

    def __init__(
        self,
        *,
        options: Options,
        gatekeeper: Gatekeeper,
        service: Service,
        facts: FactCache,
        polls: Polls,
        watching: Watching,
    ) -> None:
        self._options = options
        self._gatekeeper = gatekeeper
        self._service = service
        self._facts = facts
        self._polls = polls
        self._watching = watching

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
        request_id = str(uuid4())
        protocol, action, wait = Protocol.QUERY, "", 0.0
        try:
            path, _, query = target.partition("?")
            request = Request(method, path, query, fold(headers), body, scheme, client)
            protocol = router.protocol_of(request)
            request = router.with_parameters(request)
            action = router.action_of(request)
            answer, wait = await self._answer(request, action, request_id, gone)
        except Exception as problem:  # noqa: BLE001 - no client is to see a traceback
            fault = _fault(problem)
            response = _refusal(fault, protocol, request_id)
            self._watching.note(action, response.status, time.perf_counter() - started, fault)
        else:
            response = Response(200, _headers(protocol, request_id, len(answer)), answer)
            self._watching.note(action, 200, time.perf_counter() - started - wait, None)
        return response

    def refuse(self, fault: Fault, headers: Iterable[tuple[bytes, bytes]] = ()) -> Response:
        """The answer to a request that could not be read to its end."""
        wants_json = any(name == b"x-amz-target" for name, _ in headers)
        self._watching.note("", fault.status, 0.0, fault)
        return _refusal(fault, Protocol.JSON if wants_json else Protocol.QUERY, str(uuid4()))

    async def _answer(
        self, request: Request, action: str, request_id: str, gone: Gone
    ) -> tuple[bytes, float]:
        """The body of the answer, and how long it waited for messages on purpose."""
        if action == STS_ACTION:
            key = self._gatekeeper.identify(request, "sts").key
            return query_xml.write_identity(key.account, key.arn, key.user_id, request_id), 0.0
        identity = self._gatekeeper.identify(request, "sqs")
        call = router.read(request, action, identity)
        await self._authorize(request, call, identity)
        protocol = router.protocol_of(request)
        ask = Ask(router.text_of(call), self._context(request, identity, protocol))
        answer, wait = await self._perform(call, ask, gone)
        if action == "ListQueues" and identity.key.queues:
            answer = _reachable(answer, identity)
        if protocol is Protocol.QUERY:
            answer = query_xml.write(action, msgspec.json.decode(answer), request_id)
        return answer, wait

    async def _perform(self, call: Call, ask: Ask, gone: Gone) -> tuple[bytes, float]:
        answer = await self._service.call(call.action, call.queue, ask)
        if call.queue is None:
            return answer, 0.0
        if call.action in _CHANGES:
            self._facts.forget(call.queue)
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
        answer = await self._polls.wait(call.queue, ask, seconds, gone)
        return answer, time.perf_counter() - began

    async def _authorize(self, request: Request, call: Call, identity: Identity) -> None:
        if not self._options.auth:
            return
        key, queue = identity.key, call.queue
        if queue is None or call.action == "CreateQueue":
            access.check_own(key, call.action, f"arn:aws:sqs:{identity.region}:{key.account}:*")
            if queue is not None:
                access.check_queue(key, call.action, queue, (), {})
            return
        facts = self._facts.known(queue)
        if facts is None:
            try:
                facts = await self._facts.get(queue)
            except Fault:
                # It does not exist: its owner hears so from the action, a stranger does not.
                access.check_queue(key, call.action, queue, (), {})
                return
        given = _condition_facts(request, identity) if facts.statements else {}
        access.check_queue(key, call.action, queue, facts.statements, given)

    def _context(self, request: Request, identity: Identity, protocol: Protocol) -> bytes:
        context = _context(
            identity.key.account,
            identity.region,
            self._options.url_style.pattern(self._base_url(request)),
            identity.key.user_id,
            protocol.value,
        )
        trace = request.headers.get("x-amzn-trace-id")
        if trace is None:
            return context
        return context[:-1] + b',"trace_header":' + msgspec.json.encode(trace) + b"}"

    def _base_url(self, request: Request) -> str:
        if self._options.public_url is not None:
            return self._options.public_url
        host, scheme = request.headers.get("host", ""), request.scheme
        if self._options.behind_proxy:
            host = request.headers.get("x-forwarded-host", host).partition(",")[0].strip()
            scheme = request.headers.get("x-forwarded-proto", scheme).partition(",")[0].strip()
        if not _HOST.fullmatch(host) or scheme not in ("http", "https"):
            raise errors.malformed("The header Host is missing or can't be used.")
        return f"{scheme}://{host}"


@lru_cache(maxsize=1024)
def _context(account: str, region: str, queue_url: str, sender: str, protocol: str) -> bytes:
    return msgspec.json.encode(
        {
            "account": account,
            "region": region,
            "queue_url": queue_url,
            "sender_id": sender,
            "protocol": protocol,
        }
    )


def _condition_facts(request: Request, identity: Identity) -> dict[str, str]:
    facts = {
        "aws:currenttime": datetime.now(UTC).isoformat(),
        "aws:epochtime": str(int(time.time())),
        "aws:principalarn": identity.key.arn,
        "aws:principalaccount": identity.key.account,
        "aws:userid": identity.key.user_id,
        "aws:username": identity.key.name or identity.key.access_key,
        "aws:principaltype": "User",
        "aws:requestedregion": identity.region,
        "aws:securetransport": "true" if request.scheme == "https" else "false",
        "aws:useragent": request.headers.get("user-agent", ""),
    }
    return facts if request.client is None else facts | {"aws:sourceip": request.client}


def _reachable(answer: bytes, identity: Identity) -> bytes:
    """A list of queues without those that the key is not for."""
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
            return errors.malformed("A value can't be stored.")
        case DatabaseUnavailable() | OutcomeUnknown():
            return errors.unavailable()
        case PenstockError():
            _log.error("a request failed: %s", type(problem).__name__)
            return errors.internal()
        case _:
            _log.error("a request failed", exc_info=problem)
            return errors.internal()


def _refusal(fault: Fault, protocol: Protocol, request_id: str) -> Response:
    if protocol is Protocol.JSON:
        body = json.write_fault(fault)
    else:
        body = query_xml.write_fault(fault, request_id)
    headers = _headers(protocol, request_id, len(body))
    kind = "Sender" if fault.is_senders else "Receiver"
    headers.append((b"x-amzn-query-error", f"{fault.query_code};{kind}".encode()))
    return Response(fault.status, headers, body)


def _headers(protocol: Protocol, request_id: str, length: int) -> Headers:
    kind = json.CONTENT_TYPE if protocol is Protocol.JSON else query_xml.CONTENT_TYPE
    return [
        (b"content-type", kind),
        (b"content-length", b"%d" % length),
        (b"x-amzn-requestid", request_id.encode()),
    ]
