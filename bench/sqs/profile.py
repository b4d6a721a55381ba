"""Where the time of a request goes: `python -m bench.sqs.profile`.

Each part of the server is run by itself, as it is, many times over: reading HTTP, checking the
signature, reading and checking the JSON, batching, and the statement in the database with the CPU
that its backend spends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
import uvloop
from rich.console import Console
from rich.table import Table

from bench.sqs.ours import KEY, database
from bench.sqs.phases import BODY
from bench.sqs.wire import Credentials, Signer
from penstock.settings import Settings
from penstock.sqs.auth.authentication import Authenticator
from penstock.sqs.backend.call_batcher import CallBatcher, Invocation
from penstock.sqs.backend.database_pipe import Pipe
from penstock.sqs.http.application import Application
from penstock.sqs.http.gateway import context_of, success
from penstock.sqs.http.http_connection import connections
from penstock.sqs.protocol import sqs_request
from penstock.sqs.protocol.sqs_request import Protocol, Request, fold
from penstock.sqs.server_options import Options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.sqs.backend.call_batcher import BatchedCall
    from penstock.sqs.http.gateway import Response

URL = "http://127.0.0.1:9324"
QUEUE = f"{URL}/000000000000/bench"


@dataclass(frozen=True, slots=True)
class Part:
    """What one request, or one statement, costs."""

    name: str
    microseconds: float
    backend: float | None = None
    """Of CPU, in the database."""


async def measured(name: str, rounds: int, step: Callable[[], Awaitable[Any]]) -> Part:
    for _ in range(rounds // 10):
        await step()
    started = time.perf_counter()
    for _ in range(rounds):
        await step()
    return Part(name, (time.perf_counter() - started) / rounds * 1e6)


class _Wire:
    """As much of a transport as a connection asks for."""

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def write(self, data: bytes) -> None:
        self.written = data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


class _State:
    """As much of uvicorn's."""

    def __init__(self) -> None:
        self.connections: set[Any] = set()
        self.tasks: set[Any] = set()
        self.total_requests = 0
        self.default_headers: list[tuple[bytes, bytes]] = []


def requests(batch: int) -> dict[str, dict[str, Any]]:
    """One of each action that is measured."""
    if batch == 1:
        return {"SendMessage": {"QueueUrl": QUEUE, "MessageBody": BODY}}
    entries = [{"Id": str(n), "MessageBody": BODY} for n in range(batch)]
    return {"SendMessageBatch": {"QueueUrl": QUEUE, "Entries": entries}}


async def of_the_server(application: Application, batch: int, rounds: int) -> list[Part]:
    """The parts that need no database."""
    [(action, wanted)] = requests(batch).items()
    body = json.dumps(wanted, separators=(",", ":")).encode()
    raw = Signer(URL, Credentials(KEY.access_key, KEY.secret)).request(action, body)
    seen: list[Any] = []
    answer = success(Protocol.JSON, "0", b'{"MessageId":"x"}')

    async def canned(*given: Any, **_named: Any) -> Response:
        seen[:] = given
        return answer

    application.gateway.handle = canned  # type: ignore[method-assign, assignment]
    state = _State()
    made: Any = connections(application)(None, state, {})  # type: ignore[call-arg]
    made.connection_made(_Wire())

    async def http() -> None:
        made.data_received(raw)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    parts = [await measured("HTTP", rounds, http)]
    method, target, headers, content = seen
    request = Request(method, target, "", fold(headers), content)
    authenticator = Authenticator(application.keyring, application.options)
    identity = authenticator.identify(request, "sqs")

    async def signature() -> None:
        authenticator.identify(Request(method, target, "", fold(headers), content), "sqs")

    async def reading() -> None:
        account, region = identity.key.account, identity.region
        call = sqs_request.read(request, action, Protocol.JSON, account, region)
        context = context_of(request, identity, Protocol.JSON, application.options)
        Invocation(sqs_request.text_of(call), context)

    def answered(calls: Sequence[BatchedCall], done: Callable[[], None]) -> None:
        for call in calls:
            call.answer.set_result(b"")
        done()

    batcher = CallBatcher(answered, most=64, width=3, mixed=True)

    async def batching() -> None:
        await batcher.submit(action, "q", Invocation(body, b""))

    parts.append(await measured("signature", rounds, signature))
    parts.append(await measured("JSON, model, context", rounds, reading))
    parts.append(await measured("batching, alone", rounds, batching))
    made.connection_lost(None)
    return parts


class Statements:
    """Calls of `pgqs.invoke_on` over one pipe, timed here and in the backend."""

    def __init__(self, pipe: Pipe, backend: psutil.Process, context: bytes) -> None:
        self._pipe = pipe
        self._backend = backend
        self._context = context

    async def call(self, action: str, wanted: Sequence[dict[str, Any]]) -> list[Any]:
        bodies = json.dumps(wanted).encode()
        given = (action.encode(), b"bench", bodies, self._context)
        over = asyncio.get_running_loop().create_future()
        self._pipe.send([given], lambda found, problem: over.set_result((found, problem)))
        found, problem = await over
        if problem is not None:
            raise problem
        return [json.loads(each) for each in found[0]]

    async def timed(self, name: str, steps: Sequence[Callable[[], Awaitable[Any]]]) -> Part:
        before, started = self._cpu(), time.perf_counter()
        for step in steps:
            await step()
        count = len(steps)
        took = (time.perf_counter() - started) / count * 1e6
        return Part(name, took, (self._cpu() - before) / count * 1e6)

    def _cpu(self) -> float:
        times = self._backend.cpu_times()
        return float(times.user + times.system)


async def of_the_database(
    statements: Statements, together: int, batch: int, rounds: int
) -> list[Part]:
    """Send, receive and delete, so many requests in a statement."""
    call = statements.call
    [(send, wanted)] = requests(batch).items()
    take = {"QueueUrl": QUEUE, "MaxNumberOfMessages": batch}
    received: list[Any] = []

    async def receive() -> None:
        received.append(await call("ReceiveMessage", [take] * together))

    async def delete() -> None:
        await call(*deletion(received.pop(), batch))

    steps = [lambda: call(send, [wanted] * together)] * rounds
    named = f"{together} x {batch}"
    return [
        await statements.timed(f"send {named}", steps),
        await statements.timed(f"receive {named}", [receive] * rounds),
        await statements.timed(f"delete {named}", [delete] * rounds),
    ]


def deletion(answers: Sequence[Any], batch: int) -> tuple[str, list[dict[str, Any]]]:
    """What deletes everything that was received."""
    handles = [[each["ReceiptHandle"] for each in answer["Messages"]] for answer in answers]
    if batch == 1:
        return "DeleteMessage", [{"QueueUrl": QUEUE, "ReceiptHandle": each} for [each] in handles]
    return "DeleteMessageBatch", [
        {
            "QueueUrl": QUEUE,
            "Entries": [{"Id": str(n), "ReceiptHandle": h} for n, h in enumerate(each)],
        }
        for each in handles
    ]


async def profile(dsn: str, rounds: int) -> tuple[list[Part], list[Part]]:
    """The parts of the server, and the statements of the database."""
    application = Application(Settings(dsn=dsn), Options(key_table=False))
    application.keyring.replace([KEY])
    own = [
        Part(f"{part.name}, {'single' if batch == 1 else 'ten'}", part.microseconds)
        for batch in (1, 10)
        for part in await of_the_server(application, batch, rounds)
    ]
    await application.client.open()
    try:
        await application.client.create_queue("bench")
        pipe = await Pipe.open(application.client.database, durable=True)
        backend = psutil.Process(pipe.backend_pid)
        context = json.dumps({"account": KEY.account, "region": "us-east-1", "queue_url": ""})
        statements = Statements(pipe, backend, context.encode())
        theirs: list[Part] = []
        for together, batch in ((1, 1), (8, 1), (64, 1), (1, 10), (8, 10)):
            theirs += await of_the_database(statements, together, batch, max(50, rounds // 10))
        await pipe.close()
    finally:
        await application.client.close()
    return own, theirs


def _table(title: str, parts: Sequence[Part]) -> Table:
    table = Table(title=title)
    table.add_column("part")
    table.add_column("us", justify="right")
    table.add_column("backend CPU, us", justify="right")
    for part in parts:
        backend = "" if part.backend is None else f"{part.backend:,.0f}"
        table.add_row(part.name, f"{part.microseconds:,.1f}", backend)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.sqs.profile", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5000, help="of each part (%(default)s)")
    arguments = parser.parse_args()
    with database() as server:
        own, theirs = uvloop.run(profile(server.dsn("postgres"), arguments.rounds))
    console = Console() if sys.stdout.isatty() else Console(width=120)
    console.print(_table("the server, per request", own))
    console.print(_table("the database, per statement (requests x messages)", theirs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
