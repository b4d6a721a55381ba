"""Eight things that must not happen between two sessions, and how to see that they did not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from prove.interleavings.sessions import Session

    Judge = Callable[[psycopg.Connection[Any], Session, Session], bool]

CLAIM = "select payload::int from penstock.consume_messages_batch('q', '{who}', 60, 10)"
PUBLISH = "select penstock.publish_message('t', '{number}')"
DEDUPED = "select penstock.publish_message('t', '1', dedupe_key => 'order-1')"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Steps of two sessions, and the question whether all was well afterwards."""

    name: str
    one: tuple[str, ...]
    other: tuple[str, ...]
    well: Judge
    prepare: tuple[str, ...] = ()
    queue: str = ""
    """More options of the queue."""
    sabotage: tuple[tuple[str, str], ...] = field(default=())
    """Steps of the first session to replace in the broken variant, or a change of a function."""


def _claim(who: str) -> str:
    return CLAIM.format(who=who)


def _state(db: psycopg.Connection[Any], message: str = "1") -> str:
    row = db.execute(
        "select penstock.message_state('q', m.id) from penstock.log m "
        "where m.topic = 't' and m.payload = %s::jsonb",
        (message,),
    ).fetchone()
    return row[0] if row else "missing"


def _deliveries(*sessions: Session) -> int:
    """How often message 1 was handed out; a step that says yes is no delivery."""
    answers = [each for session in sessions for answer in session.answers for each in answer]
    return sum(each == 1 and each is not True for each in answers)


def _nothing_uncommitted(_db: Any, _one: Session, other: Session) -> bool:
    return all(answer == [] for answer in other.answers)


def _acked_stays_acked(db: psycopg.Connection[Any], one: Session, _other: Session) -> bool:
    held = db.execute("select count(*) from penstock_data.claims").fetchone()
    return one.answers[1] == [True] and _state(db) == "done" and held == (0,)


def _claimed_once(_db: Any, one: Session, other: Session) -> bool:
    return _deliveries(one, other) == 1


def _stored_once(db: psycopg.Connection[Any], one: Session, other: Session) -> bool:
    stored = db.execute("select count(*) from penstock.log where topic = 't'").fetchone()
    return stored == (1,) and one.answers[1] == other.answers[1]


def _never_beyond_the_cap(db: psycopg.Connection[Any], one: Session, other: Session) -> bool:
    deliveries = _deliveries(one, other)
    return deliveries <= 2 and (deliveries < 2 or _state(db) in ("dead", "claimed", "scheduled"))


def _second_after_the_first_is_acked(_db: Any, one: Session, other: Session) -> bool:
    early = [
        ended
        for answer, ended in zip(other.answers, other.ended, strict=True)
        if 2 in answer and ended < one.ended[-1]
    ]
    return not early


def _all_or_none(_db: Any, _one: Session, other: Session) -> bool:
    return all(answer in ([], [1, 2, 3]) for answer in other.answers)


def _whoever_is_second_has_it_too(_db: Any, _one: Session, other: Session) -> bool:
    first, second = other.answers[:2]
    return first != [1] or second == [1]


WITHOUT_LOCK = (
    "order by c.first_id desc limit 1\n        for update;",
    "order by c.first_id desc limit 1;",
)
EXTEND = "select penstock.extend_message_vt('q', {id}, 'me', 60) is not null"

ANOMALIES = (
    Anomaly(
        "aborted read",
        ("begin", PUBLISH.format(number=1), "rollback"),
        (_claim("a"), _claim("b"), _claim("c")),
        _nothing_uncommitted,
        sabotage=(("begin", "select 1"),),
    ),
    Anomaly(
        "lost update of ack and extend",
        ("begin", "select penstock.ack_message('q', {id}, 'me')", "commit"),
        ("begin", EXTEND, "commit"),
        _acked_stays_acked,
        prepare=(PUBLISH.format(number=1), _claim("me")),
        sabotage=(WITHOUT_LOCK,),
    ),
    Anomaly(
        "double claim",
        ("begin", _claim("a"), "commit"),
        ("begin", _claim("b"), "commit", _claim("c")),
        _claimed_once,
        prepare=(PUBLISH.format(number=1),),
    ),
    Anomaly(
        "dedupe race", ("begin", DEDUPED, "commit"), ("begin", DEDUPED, "commit"), _stored_once
    ),
    Anomaly(
        "cap overrun",
        (_claim("a"), "select penstock.nack_message('q', {id}, 'a', 0)", _claim("a2")),
        (_claim("b"), "select penstock.nack_message('q', {id}, 'b', 0)", _claim("b2")),
        _never_beyond_the_cap,
        prepare=(PUBLISH.format(number=1),),
        queue=", max_delivery_attempts => 2",
    ),
    Anomaly(
        "order inversion",
        ("begin", "select penstock.ack_message('q', {id}, 'me')", "commit"),
        (_claim("b"), _claim("c"), _claim("d")),
        _second_after_the_first_is_acked,
        prepare=(
            "select penstock.publish_message('t', '1', key => 'k')",
            "select penstock.publish_message('t', '2', key => 'k')",
            _claim("me"),
        ),
        queue=", ordering => 'fifo'",
    ),
    Anomaly(
        "half-visible batch",
        (
            "begin",
            "select penstock.publish_messages('t', array['1', '2']::jsonb[])",
            PUBLISH.format(number=3),
            "commit",
        ),
        (_claim("a"), _claim("b"), _claim("c")),
        _all_or_none,
        sabotage=(("begin", "select 1"), ("commit", "select 1")),
    ),
    Anomaly(
        "torn fan-out",
        ("begin", PUBLISH.format(number=1), "commit"),
        (_claim("a"), CLAIM.format(who="b").replace("'q'", "'q2'"), _claim("c")),
        _whoever_is_second_has_it_too,
    ),
)
