"""What a failure means for the call that met it, without a database."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from psycopg_pool import PoolClosed, PoolTimeout

from penstock import errors
from penstock.backoff import LONGEST_PAUSE, backoff
from penstock.client.calls import Repeat
from penstock.postgres.faults import (
    Fault,
    Kind,
    Overdue,
    Patience,
    classify,
    final,
    may_repeat,
)

LOST = psycopg.OperationalError("server closed the connection unexpectedly")
BOTH = [Repeat.ALWAYS, Repeat.BEFORE_SENDING]


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (LOST, Kind.CONNECTION_LOST),
        (psycopg.errors.AdminShutdown("terminating"), Kind.CONNECTION_LOST),
        (PoolTimeout("no connection"), Kind.UNREACHABLE),
        (psycopg.errors.SerializationFailure("x"), Kind.SERIALIZATION),
        (psycopg.errors.DeadlockDetected("x"), Kind.DEADLOCK),
        (psycopg.errors.LockNotAvailable("x"), Kind.LOCK_TIMEOUT),
        (psycopg.errors.ReadOnlySqlTransaction("x"), Kind.STANDBY),
        (psycopg.errors.InsufficientPrivilege("x"), Kind.PERMISSION),
        (psycopg.errors.InvalidSchemaName('schema "penstock" does not exist'), Kind.OTHER_SCHEMA),
        (psycopg.errors.DiskFull("x"), Kind.REFUSED),
        (errors.UnknownQueue("x", code="PS002"), Kind.QUEUE_MISSING),
        (errors.QueueExpired("x", code="PS008"), Kind.QUEUE_MISSING),
        (errors.WrongSchemaVersion("x"), Kind.OTHER_SCHEMA),
        (errors.OutcomeUnknown("x"), Kind.OUTCOME_UNKNOWN),
    ],
)
def test_every_failure_has_its_kind(problem: Exception, kind: Kind) -> None:
    assert classify(problem).kind is kind


def test_a_connection_lost_before_sending_has_done_nothing() -> None:
    assert classify(LOST, sent=False).kind is Kind.UNREACHABLE


def test_what_the_server_gave_up_in_time_is_undone_and_silence_tells_nothing() -> None:
    undone, silence = classify(Overdue(3, undone=True)), classify(Overdue(3))
    assert (undone.kind, silence.kind) == (Kind.TIMED_OUT, Kind.CONNECTION_LOST)
    assert not undone.spoils_connection
    assert silence.spoils_connection
    assert classify(Overdue(3), sent=False).kind is Kind.UNREACHABLE
    assert isinstance(final(undone), errors.CallTimeout)
    assert isinstance(final(silence, Repeat.ALWAYS), errors.CallTimeout)
    assert isinstance(final(silence), errors.OutcomeUnknown)
    assert "within 3 s" in str(final(silence))


def test_what_no_driver_raised_is_not_ours_to_judge() -> None:
    with pytest.raises(ZeroDivisionError):
        classify(ZeroDivisionError())


@pytest.mark.parametrize("repeat", BOTH)
@pytest.mark.parametrize(
    "kind",
    [
        Kind.UNREACHABLE,
        Kind.SERIALIZATION,
        Kind.DEADLOCK,
        Kind.LOCK_TIMEOUT,
        Kind.TIMED_OUT,
        Kind.STANDBY,
    ],
)
def test_what_the_server_did_not_do_may_always_be_repeated(kind: Kind, repeat: Repeat) -> None:
    assert may_repeat(Fault(kind, errors.PenstockError()), repeat)


@pytest.mark.parametrize("repeat", BOTH)
@pytest.mark.parametrize(
    "kind",
    [Kind.QUEUE_MISSING, Kind.OTHER_SCHEMA, Kind.PERMISSION, Kind.REFUSED, Kind.OUTCOME_UNKNOWN],
)
def test_what_was_refused_is_not_repeated(kind: Kind, repeat: Repeat) -> None:
    assert not may_repeat(Fault(kind, errors.PenstockError()), repeat)


def test_after_sending_only_what_is_harmless_is_repeated() -> None:
    fault = classify(LOST)
    assert may_repeat(fault, Repeat.ALWAYS)
    assert not may_repeat(fault, Repeat.BEFORE_SENDING)


def test_a_closed_client_is_not_waited_for() -> None:
    assert not may_repeat(classify(PoolClosed("closed")), Repeat.ALWAYS)


def test_a_lost_commit_may_be_repeated_and_one_without_a_standby_may_not() -> None:
    lost = errors.OutcomeUnknown("lost")
    lost.__cause__ = LOST
    assert may_repeat(classify(lost), Repeat.ALWAYS)
    assert not may_repeat(classify(lost), Repeat.BEFORE_SENDING)
    assert not may_repeat(classify(errors.OutcomeUnknown("no standby")), Repeat.ALWAYS)


def test_the_caller_learns_whether_repeating_is_safe() -> None:
    assert isinstance(final(classify(LOST), Repeat.BEFORE_SENDING), errors.OutcomeUnknown)
    assert isinstance(final(classify(LOST), Repeat.ALWAYS), errors.ConnectionLost)
    refused = errors.UnknownQueue("x")
    assert final(classify(refused), Repeat.ALWAYS) is refused


def test_pauses_double_to_their_limit() -> None:
    assert [backoff(n, luck=0) for n in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert backoff(10_000, luck=0) == LONGEST_PAUSE


def test_luck_takes_up_to_half_of_a_pause() -> None:
    assert backoff(3, luck=1) == 2
    assert all(2 < backoff(3) <= 4 for _ in range(100))


def test_the_first_repetition_after_a_loss_comes_at_once_and_then_there_are_pauses() -> None:
    patience = Patience(timedelta(seconds=60), now=100)
    fault = classify(LOST)
    assert patience.pause(fault, Repeat.ALWAYS, now=100) == 0
    second = patience.pause(fault, Repeat.ALWAYS, now=100)
    assert second is not None
    assert 0.5 <= second <= 1


def test_conflicts_are_repeated_after_a_short_while() -> None:
    fault = classify(psycopg.errors.DeadlockDetected("x"))
    pause = Patience(timedelta(seconds=60), now=0).pause(fault, Repeat.BEFORE_SENDING, now=0)
    assert pause is not None
    assert 0 < pause <= 0.01


def test_patience_ends_with_its_time_and_with_what_may_not_be_repeated() -> None:
    fault = classify(LOST)
    assert Patience(timedelta(seconds=5), now=0).pause(fault, Repeat.ALWAYS, now=6) is None
    assert Patience(timedelta(seconds=5), now=0).pause(fault, Repeat.BEFORE_SENDING, now=0) is None


def test_what_may_have_arrived_is_not_repeated_once_the_engine_has_forgotten_it() -> None:
    lost = Fault(Kind.CONNECTION_LOST, errors.ConnectionLost("gone"))
    away = Fault(Kind.UNREACHABLE, errors.DatabaseUnavailable("away"))
    patience = Patience(timedelta(minutes=10), now=0, recognised_for=30)
    # Nothing was sent yet: the time of the window has not begun.
    assert patience.pause(away, Repeat.ALWAYS, now=40) == 0
    assert patience.pause(lost, Repeat.ALWAYS, now=41) is None
    assert isinstance(patience.final(lost, Repeat.ALWAYS, now=41), errors.OutcomeUnknown)

    patience = Patience(timedelta(minutes=10), now=0, recognised_for=30)
    assert patience.pause(lost, Repeat.ALWAYS, now=1) == 0
    assert patience.pause(away, Repeat.ALWAYS, now=31) is None
    # The last attempt reached no server, but the first may have.
    assert isinstance(patience.final(away, Repeat.ALWAYS, now=31), errors.OutcomeUnknown)
