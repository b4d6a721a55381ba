"""One connection of the door in libpq's pipeline mode: batches set out at once, each a transaction.

A batch is a few calls of `pgqs.invoke_on`, and one Sync: all of them commit together, and the
answers are given out when the server has said that they did.  The next batch needs not wait for
that.  The driver's own way (a pool, a cursor, a wait for each step) costs several times as much as
the statement itself when the statement is short.
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

from penstock.client.deadlines import CANCEL_SECONDS, Overdue
from penstock.errors import OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import AsyncConnection
    from psycopg.errors import Diagnostic
    from psycopg.pq.abc import PGresult

    from penstock.client._async.database import Database

Parameters = tuple[bytes, bytes, bytes, bytes]
"""An action, the engine's name of the queue, requests as a JSON array, and their context."""
Answers = list[bytes]

_NAME = b"penstock_sqs_invoke"
_PREPARE = """\
prepare penstock_sqs_invoke (text, text, jsonb, jsonb) as
select answer from pgqs.invoke_on($1, $2, $3, $4) as answer"""
# Which function of the server warns has a name that no translation changes.
_STANDBY_WAIT = "SyncRepWaitForLSN"


Finished = Callable[[list[Answers], "Exception | None"], None]
"""Told once the transaction is over: the answers to each call, or what went wrong."""


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
        """Set out; no task and no future in between, for each would be a turn of the loop."""
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
        """Whoever still waits is told that nobody knows."""
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
        """Ask the server to give up; if it says nothing to that either, nobody knows."""
        with suppress(psycopg.Error, OSError):
            await self._connection.cancel_safe(timeout=CANCEL_SECONDS)
        await asyncio.sleep(CANCEL_SECONDS)
        if self._sent and self._sent[0] is batch:
            self._break(Overdue(self._answer_within))
        elif self._sent and self._timer is None:
            self._look_at_clock()

    def _notice(self, diagnosis: Diagnostic) -> None:
        if diagnosis.source_function == _STANDBY_WAIT and self._sent:
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
