"""A claim that did not get its turn is told apart from one on an empty queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.concurrency.sessions import call, claim, create, publish, value, values
from tests.fixtures import clock
from tests.sqs_sql.caller import ARN, Sqs, redrive

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]


@pytest.fixture
def holder(db: Session, connect: Connect) -> Session:
    """A session whose transaction keeps what it locks; others wait ten milliseconds."""
    db.execute("select penstock.configure('lock_wait', '10 milliseconds')")
    return connect(autocommit=False)


def hold(holder: Session, queue: str = "q") -> None:
    holder.execute("select penstock_data.lock_queue(%s)", (queue,))


def heard(db: Session) -> list[str | None]:
    codes: list[str | None] = []
    db.add_notice_handler(lambda notice: codes.append(notice.sqlstate))
    return codes


@pytest.mark.parametrize(
    "statement",
    [
        "select message_id from penstock.consume_message('q', 't', 30)",
        "select message_id from penstock.consume_messages_batch('q', 't', 30, 10)",
    ],
)
def test_a_claim_says_whether_it_had_its_turn(db: Session, holder: Session, statement: str) -> None:
    create(db)
    codes = heard(db)
    assert values(db, statement) == []
    assert codes == []
    message = publish(db)
    hold(holder)
    assert values(db, statement) == []
    assert codes == ["PS018"]
    holder.rollback()
    assert values(db, statement) == [message]
    assert codes == ["PS018"]


def test_moving_out_of_a_busy_queue_is_refused_and_not_taken_for_done(
    db: Session, holder: Session
) -> None:
    create(db)
    call(db, "create_topic", "other")
    publish(db)
    hold(holder)
    with pytest.raises(psycopg.DatabaseError, match="busy") as refusal:
        call(db, "move_messages", "q", "other")
    assert refusal.value.sqlstate == "PS018"
    holder.rollback()
    assert call(db, "move_messages", "q", "other") == 1
    assert call(db, "move_messages", "q", "other") == 0


@pytest.fixture
def dead(db: Session) -> Sqs:
    """A message in the dead-letter queue, and a task that is to move it back."""
    sqs = Sqs(db)
    sqs.create("dead")
    sqs.create("q", RedrivePolicy=redrive("dead", 1))
    sqs.send("q", "a")
    assert sqs.bodies("q", 1, VisibilityTimeout=0) == ["a"]
    assert sqs.receive("q") == []
    sqs("StartMessageMoveTask", SourceArn=ARN + "dead")
    return sqs


def status(sqs: Sqs) -> str:
    (task,) = sqs("ListMessageMoveTasks", SourceArn=ARN + "dead")["Results"]
    return str(task["Status"])


def test_a_move_task_whose_queue_is_busy_goes_on_later(
    db: Session, dead: Sqs, holder: Session
) -> None:
    engine_name = value(db, "select name from penstock_data.queues where name like '%%dead'")
    hold(holder, engine_name)
    assert value(db, "select pgqs.run_move_tasks()") == 0
    assert status(dead) == "RUNNING"
    holder.rollback()
    assert value(db, "select pgqs.run_move_tasks()") == 1
    assert status(dead) == "COMPLETED"
    assert dead.bodies("q") == ["a"]


def test_a_move_task_whose_queue_is_paused_goes_on_later(db: Session, dead: Sqs) -> None:
    engine_name = value(db, "select name from penstock_data.queues where name like '%%dead'")
    call(db, "pause_queue", engine_name)
    assert value(db, "select pgqs.run_move_tasks()") == 0
    assert status(dead) == "RUNNING"
    call(db, "resume_queue", engine_name)
    assert value(db, "select pgqs.run_move_tasks()") == 1
    assert status(dead) == "COMPLETED"


def test_a_claim_after_a_busy_one_still_knows_what_became_due(db: Session, holder: Session) -> None:
    create(db)
    message = publish(db)
    assert claim(db, seconds=5) == [message]
    clock.advance(db, 10)
    hold(holder)
    assert claim(db) == []
    holder.rollback()
    assert claim(db) == [message]
