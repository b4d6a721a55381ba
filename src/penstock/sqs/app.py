"""The door itself: `handle(method, target, headers, body)` → status, headers, body."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

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
from penstock.sqs import answers, errors, router
from penstock.sqs.answers import RequestIds
from penstock.sqs.authorizing import Authority
from penstock.sqs.context import context_of
from penstock.sqs.errors import Fault
from penstock.sqs.gather import Ask
from penstock.sqs.request import Request, fold, forwarded
from penstock.sqs.router import STS_ACTION, Call, Protocol
from penstock.sqs.service import NOTHING, RECEIVE
from penstock.sqs.wire import query_xml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.sqs.answers import Response
    from penstock.sqs.facts import FactCache
    from penstock.sqs.identity import Gatekeeper, Identity
    from penstock.sqs.options import Options
    from penstock.sqs.polls import Gone, Polls
    from penstock.sqs.service import Service
    from penstock.sqs.watching import Watching

_log = logging.getLogger("penstock.sqs")
_DATA_EXCEPTION = "22"
# After these, what is remembered of the queue may be wrong.
_CHANGES = frozenset(
    {"AddPermission", "CreateQueue", "DeleteQueue", "RemovePermission", "SetQueueAttributes"}
)


def never() -> asyncio.Future[None]:
    """The hang-up of a client that can't hang up."""
    return asyncio.get_running_loop().create_future()


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
        self._authority = Authority(facts) if options.auth else None
        self._service = service
        self._facts = facts
        self._polls = polls
        self._watching = watching
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
            protocol = router.protocol_of(request)
            request = router.with_parameters(request, protocol)
            action = router.action_of(request)
            answer, wait = await self._answer(request, action, protocol, request_id, gone)
        except Exception as problem:  # noqa: BLE001 - no client is to see a traceback
            fault = _fault(problem)
            response = answers.refusal(fault, protocol, request_id)
            self._watching.note(action, response.status, time.perf_counter() - started, fault)
        else:
            response = answers.success(protocol, request_id, answer)
            self._watching.note(action, 200, time.perf_counter() - started - wait, None)
        return response

    def refuse(self, fault: Fault, headers: Iterable[tuple[bytes, bytes]] = ()) -> Response:
        """The answer to a request that could not be read to its end."""
        wants_json = any(name == b"x-amz-target" for name, _ in headers)
        self._watching.note("", fault.status, 0.0, fault)
        protocol = Protocol.JSON if wants_json else Protocol.QUERY
        return answers.refusal(fault, protocol, self._ids.next())

    async def _answer(
        self, request: Request, action: str, protocol: Protocol, request_id: str, gone: Gone
    ) -> tuple[bytes, float]:
        """The body of the answer, and how long it waited for messages on purpose."""
        if action == STS_ACTION:
            key = self._gatekeeper.identify(request, "sts").key
            return query_xml.write_identity(key.account, key.arn, key.user_id, request_id), 0.0
        identity = self._gatekeeper.identify(request, "sqs")
        call = router.read(request, action, protocol, identity)
        if self._authority is not None:
            await self._authority.check(request, call, identity)
        context = context_of(request, identity, protocol, self._options)
        answer, wait = await self._perform(call, Ask(router.text_of(call), context), gone)
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
        answer = await self._polls.wait(call.queue, ask, seconds, gone)
        return answer, time.perf_counter() - began


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
        case UnknownQueue() | UnknownTopic() | QueueExpired() | EngineError(code="23503"):
            # It was deleted while somebody waited for it, or was about to change it (the last:
            # what he wrote refers to a queue that is not there any more).
            return errors.no_queue()
        case DatabaseUnavailable() | OutcomeUnknown() | LogFull() | DiskFull():
            return errors.unavailable()
        case PenstockError():
            code = getattr(problem, "code", None)
            _log.error("a request failed: %s %s", type(problem).__name__, code or "")
            return errors.internal()
        case _:
            _log.error("a request failed", exc_info=problem)
            return errors.internal()
