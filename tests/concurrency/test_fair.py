"""fair queues: whoever takes a turn, nobody is passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import Background, ack, claim, create, drain, publish

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _queue(db: Session) -> None:
    create(db, "fair")


def test_the_turn_of_one_priority_is_not_that_of_another(db: Session) -> None:
    urgent = [publish(db, key="busy", priority=1) for _ in range(3)]
    plain = [publish(db, key=f"quiet-{n}") for n in range(4)]
    assert claim(db, 4) == [*urgent, plain[0]]
    assert drain(db, "fair") == plain[1:]


def test_a_late_committer_of_a_quiet_key_does_not_wait_behind_a_busy_one(
    db: Session, connect: Connect
) -> None:
    late = connect(autocommit=False)
    quiet = publish(late, key="quiet")
    busy = [publish(db, key="busy") for _ in range(10)]
    assert claim(db, 3) == busy[:3]
    late.commit()
    assert quiet in claim(db, 2)


def test_consumers_at_once_deliver_all_keys_once(db: Session, connect: Connect) -> None:
    expected = [publish(db, key=f"key-{n % 5}", priority=n % 3) for n in range(90)]

    def work(session: Session, holder: str) -> list[int]:
        found: list[int] = []
        while ids := claim(session, 4, holder=holder):
            found += ack(session, ids, holder=holder)
        return found

    running = [Background(work, connect(), f"holder-{number}") for number in range(3)]
    assert sorted(one for each in running for one in each.result()) == expected
