"""Batches of calls over database connections in libpq's pipeline mode, each batch a transaction.

A batch is a few calls of `pgqs.invoke_on`, and one Sync: all of them commit together, and the
answers are given out when the server has said that they did.  The next batch need not wait for
that.  The driver's own way (a pool, a cursor, a wait for each step) costs several times as much as
the statement itself when the statement is short.

What fails here (a connection that breaks, a statement that the database refuses because of one of
its requests) is repeated through the client, which is slower and knows what may be repeated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from penstock.client.calls import Call, Repeat
from penstock.errors import OutcomeUnknown, PenstockError
from penstock.postgres import faults
from penstock.postgres.faults import CANCEL_SECONDS, STANDBY_WAIT, Kind, Overdue

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from psycopg import AsyncConnection
    from psycopg.errors import Diagnostic
    from psycopg.pq.abc import PGresult

    from penstock.postgres._async.database import Database
    from penstock.sqs.backend.call_batcher import BatchedCall

Parameters = tuple[bytes, bytes, bytes, bytes]
"""An action, the engine's name of the queue, requests as a JSON array, and their context."""
Answers = list[bytes]

_NAME = b"penstock_sqs_invoke"
_PREPARE = """\
prepare penstock_sqs_invoke (text, text, jsonb, jsonb) as
select answer from pgqs.invoke_on($1, $2, $3, $4) as answer"""
# The same, for a call through the client.
_INVOKE_ON = "select answer from pgqs.invoke_on(%s, %s, %s::text::jsonb, %s::text::jsonb) answer"
# Repeated, these would be carried out twice.
_ONCE = frozenset({"SendMessage", "SendMessageBatch", "StartMessageMoveTask"})

Finished = Callable[[list[Answers], "Exception | None"], None]
"""Told once the transaction is over: the answers to each call, or what went wrong."""


def repeat_of(action: str) -> Repeat:
    return Repeat.BEFORE_SENDING if action in _ONCE else Repeat.ALWAYS


def parameters_of(calls: Sequence[BatchedCall]) -> Parameters:
    """Calls of one action, one queue and one context, as one statement takes them."""
    first = calls[0]
    requests = b",".join([call.invocation.request for call in calls])
    return (
        first.action.encode(),
        first.queue.encode(),
        b"[%s]" % requests,
        first.invocation.context,
    )


def invoke_on(calls: Sequence[BatchedCall]) -> Call[list[bytes]]:
    """The same, through the client."""
    parameters = tuple(each.decode() for each in parameters_of(calls))
    return Call(
        _INVOKE_ON,
        parameters,
        lambda rows: [row[0].encode() for row in rows],
        repeat_of(calls[0].action),
    )


@dataclass(eq=False, slots=True)
class _Batch:
    finished: Finished
    sent_at: float
    found: list[Answers] = field(default_factory=list)
    problem: Exception | None = None
    overdue: bool = False


class Pipe:
    """Made by `Pipe.open`; of no use any more once it is `broken`."""

    def __init__(self, connection: AsyncConnection[Any], answer_within: float) -> None:
        self._connection = connection
        self._answer_within = answer_within
        self._timer: asyncio.TimerHandle | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._pgconn = connection.pgconn
        self._socket = self._pgconn.socket
        self._loop = asyncio.get_running_loop()
        self._sent: deque[_Batch] = deque()
        self.broken = False
        connection.add_notice_handler(self._notice)
        self._pgconn.enter_pipeline_mode()
        self._loop.add_reader(self._socket, self._read)

    @classmethod
    async def open(cls, database: Database, *, durable: bool) -> Pipe:
        """Connect.  What need not survive a crash of the server does not wait for its disk."""
        connection = await database.dedicated()
        try:
            await connection.execute("set plan_cache_mode = force_generic_plan")
            if not durable:
                await connection.execute("set synchronous_commit = off")
            await connection.execute(_PREPARE)
            return cls(connection, database.settings.call_timeout.total_seconds())
        except BaseException:
            await connection.close()
            raise

    @property
    def backend_pid(self) -> int:
        return self._pgconn.backend_pid

    def send(self, batch: Sequence[Parameters], finished: Finished) -> None:
        """Send a batch; without a task or a future, which would each cost a turn of the loop."""
        self._sent.append(_Batch(finished, self._loop.time()))
        if self._timer is None:
            self._timer = self._loop.call_later(self._answer_within, self._look_at_clock)
        try:
            for parameters in batch:
                self._pgconn.send_query_prepared(_NAME, parameters)
            self._pgconn.pipeline_sync()
            self._flush()
        except psycopg.Error as problem:
            self._break(problem)

    async def close(self) -> None:
        """Fail the calls that still wait: their outcome is unknown."""
        self._break(psycopg.OperationalError("the connection was closed"))
        await self._connection.close()

    def _flush(self) -> None:
        if self._pgconn.flush():
            # More than the socket takes at once: go on when it takes more.
            self._loop.add_writer(self._socket, self._write)

    def _write(self) -> None:
        try:
            if not self._pgconn.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.Error as problem:
            self._break(problem)

    def _read(self) -> None:
        try:
            self._pgconn.consume_input()
            while self._sent and not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is not None:
                    self._take(result)
        except psycopg.Error as problem:
            self._break(problem)

    def _take(self, result: PGresult) -> None:
        batch = self._sent[0]
        match result.status:
            case ExecStatus.TUPLES_OK:
                rows = range(result.ntuples)
                batch.found.append([result.get_value(row, 0) or b"" for row in rows])
            case ExecStatus.PIPELINE_SYNC:
                self._sent.popleft()
                batch.finished(batch.found, batch.problem)
            case ExecStatus.PIPELINE_ABORTED:
                pass
            case _:
                problem: psycopg.Error = error_from_result(result)
                if batch.overdue and isinstance(problem, psycopg.errors.QueryCanceled):
                    problem = Overdue(self._answer_within, undone=True)
                batch.problem = batch.problem or problem

    def _look_at_clock(self) -> None:
        """The server has to answer in time, as in every other call."""
        self._timer = None
        if not self._sent:
            return
        left = self._sent[0].sent_at + self._answer_within - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look_at_clock)
        else:
            self._sent[0].overdue = True
            self._cancelling = self._loop.create_task(self._cut_short(self._sent[0]))

    async def _cut_short(self, batch: _Batch) -> None:
        """Ask the server to cancel; if it does not answer that either, the outcome is unknown."""
        with suppress(psycopg.Error, OSError):
            await self._connection.cancel_safe(timeout=CANCEL_SECONDS)
        await asyncio.sleep(CANCEL_SECONDS)
        if self._sent and self._sent[0] is batch:
            self._break(Overdue(self._answer_within))
        elif self._sent and self._timer is None:
            self._look_at_clock()

    def _notice(self, diagnosis: Diagnostic) -> None:
        if diagnosis.source_function == STANDBY_WAIT and self._sent:
            self._sent[0].problem = OutcomeUnknown(
                "the wait for the synchronous standby was cut short: the call was carried out on "
                "this server, but a fail-over may lose it."
            )

    def _break(self, problem: psycopg.Error) -> None:
        if not self.broken:
            self.broken = True
            if self._timer is not None:
                self._timer.cancel()
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._pgconn.finish()
        while self._sent:
            batch = self._sent.popleft()
            batch.finished(batch.found, batch.problem or problem)


class PipePool:
    """A few pipes of one kind, opened when they are needed."""

    def __init__(self, database: Database, *, durable: bool) -> None:
        self._database = database
        self._durable = durable
        self._idle: list[Pipe] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, calls: Sequence[BatchedCall], done: Callable[[], None]) -> None:
        """Answer every call, with its result or with what went wrong; then call `done`."""
        pipe = self._idle_pipe()
        if pipe is None:
            self._in_task(self._open_and_send(calls), calls, done)
        else:
            self._send(pipe, calls, done)

    async def run(self, calls: Sequence[BatchedCall]) -> None:
        """The same, waiting for the end."""
        over = asyncio.get_running_loop().create_future()
        self.begin(calls, lambda: over.set_result(None))
        await over

    def _send(self, pipe: Pipe, calls: Sequence[BatchedCall], done: Callable[[], None]) -> None:
        groups = _grouped(calls)

        def finished(found: list[Answers], problem: Exception | None) -> None:
            if not pipe.broken:
                self._idle.append(pipe)
            if problem is None:
                for group, answers in zip(groups, found, strict=True):
                    _answer(group, answers)
                done()
            else:
                self._in_task(self._recover(groups, problem), calls, done)

        pipe.send([parameters_of(group) for group in groups], finished)

    def _in_task(
        self,
        steps: Coroutine[Any, Any, None],
        calls: Sequence[BatchedCall],
        done: Callable[[], None],
    ) -> None:
        """Run what takes several steps; its failure is the answer to all calls."""

        async def run() -> None:
            try:
                await steps
            except BaseException as problem:  # noqa: BLE001 - it is the answer
                _fail(calls, problem)
            finally:
                done()

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open_and_send(self, calls: Sequence[BatchedCall]) -> None:
        groups = _grouped(calls)
        if self._database.settings.pooler:
            # Behind a pooler a connection is ours for one transaction only.
            for group in groups:
                await self._call(group)
            return
        try:
            pipe = await Pipe.open(self._database, durable=self._durable)
        except (psycopg.Error, PenstockError) as problem:
            await self._recover(groups, problem, sent=False)
            return
        over = asyncio.get_running_loop().create_future()
        self._send(pipe, calls, lambda: over.set_result(None))
        await over

    async def close(self) -> None:
        """Close the connections; nothing may be under way."""
        while self._idle:
            await self._idle.pop().close()

    def _idle_pipe(self) -> Pipe | None:
        while self._idle:
            pipe = self._idle.pop()
            if not pipe.broken:
                return pipe
        return None

    async def _recover(
        self, groups: Sequence[Sequence[BatchedCall]], problem: Exception, *, sent: bool = True
    ) -> None:
        fault = faults.classify(problem, sent=sent)
        alone = sum(map(len, groups)) == 1
        for calls in groups:
            repeat = repeat_of(calls[0].action)
            if fault.kind is Kind.REFUSED and not alone:
                # The database refused the whole batch; one by one, it refuses only what it must.
                for call in calls:
                    await self._call([call])
            elif faults.may_repeat(fault, repeat):
                await self._call(calls)
            else:
                _fail(calls, faults.final(fault, repeat))

    async def _call(self, calls: Sequence[BatchedCall]) -> None:
        statement = invoke_on(calls)
        try:
            database = self._database
            found = await (database.run(statement) if self._durable else database.claim(statement))
            _answer(calls, found)
        except PenstockError as problem:
            if len(calls) > 1 and faults.classify(problem).kind is Kind.REFUSED:
                for call in calls:
                    await self._call([call])
            else:
                _fail(calls, problem)


def _grouped(calls: Sequence[BatchedCall]) -> list[list[BatchedCall]]:
    """Calls that one statement carries out: of one action, queue and context.

    In one order everywhere, so that two batches can't wait for each other's locks.
    """
    groups: dict[tuple[str, str, bytes], list[BatchedCall]] = {}
    for call in calls:
        groups.setdefault((call.queue, call.action, call.invocation.context), []).append(call)
    return [groups[each] for each in sorted(groups)]


def _answer(calls: Sequence[BatchedCall], answers: Sequence[bytes]) -> None:
    for call, answer in zip(calls, answers, strict=True):
        if not call.answer.done():
            call.answer.set_result(answer)


def _fail(calls: Sequence[BatchedCall], problem: BaseException) -> None:
    for call in calls:
        if not call.answer.done():
            call.answer.set_exception(problem)
