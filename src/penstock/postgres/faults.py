"""Faults of calls: how they are noticed, what they mean, whether the call is sent again.  No I/O.

A server that is silent is noticed by a deadline on the driver's own conversation with it, and a
commit that the standby has not confirmed by the server's warning.  `classify` gives every error its
meaning, and `Patience` decides whether there is another attempt.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from penstock import errors
from penstock.backoff import backoff
from penstock.postgres.call import Repeat, explained

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from psycopg.abc import PQGen
    from psycopg.errors import Diagnostic

    from penstock.postgres.call import Call

T = TypeVar("T")

CANCEL_SECONDS = 2.0
"""How long to ask for an end of what is overdue, and how long to wait for the server's word."""
LASTING_SECONDS = 3600.0
"""For a call that takes the longer the more there is: nothing but a dead line takes this long."""
# Which function of the server warns has a name that no translation changes.
STANDBY_WAIT = "SyncRepWaitForLSN"
_FIRST_CONFLICT_PAUSE = 0.01


class Overdue(psycopg.OperationalError):
    """The server did not answer in time.

    `undone`: the server has said that it cancelled the call, so nothing was changed.  Otherwise the
    outcome is unknown.
    """

    def __init__(self, seconds: float, *, undone: bool = False) -> None:
        super().__init__(f"the server did not answer within {seconds:.3g} s")
        self.seconds = seconds
        self.undone = undone


class Trust:
    """Whether connections to one server are worth waiting for; the connections of a pool share it.

    When one of them gets no answer to a heartbeat, those that exist at that moment are given up.
    """

    def __init__(self) -> None:
        self._ended_at = float("-inf")

    def end(self, now: float) -> None:
        self._ended_at = now

    def covers(self, since: float) -> bool:
        """Whether a connection made, or a request sent, at that time can still be relied on."""
        return since > self._ended_at


def until(
    conversation: PQGen[T],
    deadline: float,
    seconds: float,
    trust: Trust,
    is_cancelled: Callable[[], bool],
) -> PQGen[T]:
    """The same conversation, but Overdue ends it at the deadline, or when the trust ends.

    It ends as well when its task was cancelled and the server does not answer to that: psycopg
    would wait for the answer.

    psycopg resumes a conversation every tenth of a second, whether anything has arrived or not.
    What was going on can be taken up again afterwards.
    """
    cancelled_at: float | None = None
    try:
        wanted = next(conversation)
        while True:
            ready = yield wanted
            if not ready:
                now = time.monotonic()
                if cancelled_at is None and is_cancelled():
                    cancelled_at = now
                given_up = cancelled_at is not None and now >= cancelled_at + CANCEL_SECONDS
                if given_up or now >= deadline or not trust.covers(deadline - seconds):
                    raise Overdue(min(seconds, seconds + now - deadline))
            wanted = conversation.send(ready)
    except StopIteration as end:
        answer: T = end.value
        return answer


class StandbyCheck:
    """Notices the server's warning that a commit was not confirmed by the standby.

    A wait for the standby that is cancelled ends with the commit done and a warning: on this
    server the commit is durable, but a fail-over may lose it.
    """

    def __init__(self, connection: Any) -> None:
        self._is_unconfirmed = False
        connection.add_notice_handler(self._notice)

    def require_confirmed(self) -> None:
        """Raise if a commit since the last call was not confirmed."""
        if self._is_unconfirmed:
            self._is_unconfirmed = False
            raise errors.OutcomeUnknown(
                "the wait for the synchronous standby was cut short: the change was committed on "
                "this server, but a fail-over may lose it.\n"
                "Look at the standby (pg_stat_replication) before you rely on it."
            )

    def _notice(self, diagnosis: Diagnostic) -> None:
        if diagnosis.source_function == STANDBY_WAIT:
            self._is_unconfirmed = True


class Kind(Enum):
    """Why a call failed, as far as trying again is concerned."""

    UNREACHABLE = auto()
    """There was no connection, so nothing was sent."""
    CONNECTION_LOST = auto()
    """The connection broke after sending: the call may have been carried out."""
    SERIALIZATION = auto()
    DEADLOCK = auto()
    LOCK_TIMEOUT = auto()
    TIMED_OUT = auto()
    """The server took too long, and has given the call up."""
    STANDBY = auto()
    """A server that only reads: in a fail-over, the one that has been demoted."""
    QUEUE_MISSING = auto()
    OTHER_SCHEMA = auto()
    """No engine, or one of another version."""
    PERMISSION = auto()
    OUTCOME_UNKNOWN = auto()
    """Committed or not: the server itself can't promise."""
    REFUSED = auto()
    """Anything else that the database said no to."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed call: why, and the error that its caller gets unless a retry succeeds."""

    kind: Kind
    error: errors.PenstockError

    @property
    def spoils_connection(self) -> bool:
        """The connection is of no use any more, even if it still stands."""
        return self.kind in (Kind.CONNECTION_LOST, Kind.STANDBY)


def classify(problem: Exception, *, sent: bool = True, call: Call[Any] | None = None) -> Fault:
    """The meaning of what a driver or pool raised; `sent`: a server may have got the call."""
    if isinstance(problem, PoolClosed):
        return Fault(Kind.UNREACHABLE, errors.ClientClosed("the client was closed meanwhile"))
    if isinstance(problem, PoolTimeout | TooManyRequests):
        return Fault(Kind.UNREACHABLE, _no_connection(problem))
    if isinstance(problem, errors.ClientClosed):
        return Fault(Kind.UNREACHABLE, problem)
    if isinstance(problem, errors.PenstockError):
        return Fault(_kind(problem, sent=sent), problem)
    if isinstance(problem, Overdue):
        return _overdue(problem, sent=sent)
    if isinstance(problem, psycopg.Error):
        error = errors.translate(problem)
        if call is not None:
            error = explained(error, call)
        return Fault(_kind(error, sent=sent), error)
    raise problem


def may_repeat(fault: Fault, repeat: Repeat) -> bool:
    """Whether sending the call again can do no harm, and may help."""
    match fault.kind:
        case Kind.UNREACHABLE:
            # A client that is closed stays so.
            return not isinstance(fault.error, errors.ClientClosed)
        case Kind.CONNECTION_LOST:
            return repeat is Repeat.ALWAYS
        case Kind.SERIALIZATION | Kind.DEADLOCK | Kind.LOCK_TIMEOUT | Kind.TIMED_OUT | Kind.STANDBY:
            # The server has rolled back: it is as if the call had not been sent.
            return True
        case Kind.QUEUE_MISSING | Kind.OTHER_SCHEMA | Kind.PERMISSION:
            return False
        case Kind.OUTCOME_UNKNOWN:
            # Of a commit whose answer was lost.  One that no standby confirmed has happened, and
            # happening again would not confirm it.
            return repeat is Repeat.ALWAYS and isinstance(fault.error.__cause__, psycopg.Error)
        case Kind.REFUSED:
            return False
        case _:
            assert_never(fault.kind)


def final(fault: Fault, repeat: Repeat = Repeat.BEFORE_SENDING) -> errors.PenstockError:
    """What the caller is told when the call is not repeated any more."""
    if fault.kind is not Kind.CONNECTION_LOST:
        return fault.error
    late = isinstance(fault.error, errors.CallTimeout)
    if repeat is Repeat.ALWAYS:
        kind = errors.CallTimeout if late else errors.ConnectionLost
        return kind(f"{fault.error}\nThis call may be repeated safely.")
    what = str(fault.error) if late else "the connection was lost before the answer came"
    return errors.OutcomeUnknown(
        f"{what}: the call was sent, and may or may not have been carried out (a message may or "
        "may not have been published).\n"
        "Look before you repeat it; with a dedupe_key, publishing is repeated safely by itself."
    )


class Patience:
    """How long one call has been tried, and whether it is tried again."""

    def __init__(self, limit: timedelta, now: float, recognised_for: float | None = None) -> None:
        """`recognised_for`: seconds in which the engine knows a repetition from a new call."""
        self._end = now + limit.total_seconds()
        self._forgotten_at = None if recognised_for is None else now + recognised_for
        self._unanswered = False
        self.failures = 0

    def pause(self, fault: Fault, repeat: Repeat, now: float) -> float | None:
        """Seconds until the next attempt; None: there is none, the caller is told."""
        self.failures += 1
        self._unanswered |= fault.kind in (Kind.CONNECTION_LOST, Kind.OUTCOME_UNKNOWN)
        seconds = _pause(fault, self.failures)
        if not may_repeat(fault, repeat) or self.is_forgotten(now + seconds):
            return None
        return seconds if now + seconds <= self._end else None

    def is_forgotten(self, at: float) -> bool:
        """Whether the call may have been carried out, and would be carried out again by then."""
        return self._unanswered and self._forgotten_at is not None and at > self._forgotten_at

    def final(self, fault: Fault, repeat: Repeat, now: float) -> errors.PenstockError:
        """What the caller is told when there is no further attempt."""
        if self.is_forgotten(now + _pause(fault, self.failures)):
            return final(Fault(Kind.CONNECTION_LOST, fault.error))
        return final(fault, repeat)


def _pause(fault: Fault, failures: int) -> float:
    match fault.kind:
        case Kind.SERIALIZATION | Kind.DEADLOCK | Kind.LOCK_TIMEOUT:
            return backoff(failures, first=_FIRST_CONFLICT_PAUSE)
        case _:
            # A fresh connection often is all it takes; only the next failure tells of an outage.
            return 0.0 if failures == 1 else backoff(failures - 1)


def _kind(  # noqa: PLR0911 - one answer a case
    error: errors.PenstockError, *, sent: bool
) -> Kind:
    match error:
        case errors.DatabaseUnavailable():
            return Kind.CONNECTION_LOST if sent else Kind.UNREACHABLE
        case errors.OutcomeUnknown():
            return Kind.OUTCOME_UNKNOWN
        case errors.Conflict(code="40001"):
            return Kind.SERIALIZATION
        case errors.Conflict(code="40P01"):
            return Kind.DEADLOCK
        case errors.Conflict():
            return Kind.LOCK_TIMEOUT
        case errors.StandbyServer():
            return Kind.STANDBY
        case errors.UnknownQueue() | errors.QueueExpired():
            return Kind.QUEUE_MISSING
        case errors.NotInstalled() | errors.WrongSchemaVersion():
            return Kind.OTHER_SCHEMA
        case errors.PermissionDenied():
            return Kind.PERMISSION
        case _:
            return Kind.REFUSED


def _overdue(problem: Overdue, *, sent: bool) -> Fault:
    if problem.undone:
        advice = (
            "and was told to give up, so nothing was changed.  Something may be in its way, such "
            "as a lock (pg_locks); PENSTOCK_CALL_TIMEOUT allows for more"
        )
        return Fault(Kind.TIMED_OUT, errors.CallTimeout(f"{problem}, {advice}"))
    kind = Kind.CONNECTION_LOST if sent else Kind.UNREACHABLE
    return Fault(kind, errors.CallTimeout(str(problem)))


def _no_connection(problem: Exception) -> errors.DatabaseUnavailable:
    if isinstance(problem, PoolClosed):
        error = errors.DatabaseUnavailable("the client is closed, or was never opened")
    else:
        error = errors.DatabaseUnavailable(
            "no connection became free in time: the database can't be reached, or every "
            "connection of the pool is busy (PENSTOCK_POOL_SIZE)"
        )
    error.__cause__ = problem
    return error
