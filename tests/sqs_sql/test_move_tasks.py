"""Move tasks: messages of a dead-letter queue go back, step by step."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.fixtures import clock
from tests.fixtures.maintenance import maintain
from tests.sqs_sql.caller import ARN, Sqs, redrive

SOURCE = ARN + "dead"


@pytest.fixture
def q(sqs: Sqs) -> Sqs:
    sqs.create("dead")
    sqs.create("q", RedrivePolicy=redrive("dead", 1))
    return sqs


def bury(sqs: Sqs, *bodies: str, queue: str = "q") -> None:
    """Messages in the dead-letter queue that come from this queue."""
    for body in bodies:
        sqs.send(queue, body)
        assert sqs.bodies(queue, 1, VisibilityTimeout=0) == [body]
        assert sqs.receive(queue) == []


def start(sqs: Sqs, **more: Any) -> str:
    handle: str = sqs("StartMessageMoveTask", SourceArn=SOURCE, **more)["TaskHandle"]
    return handle


def run(sqs: Sqs) -> int:
    row = sqs.db.execute("select pgqs.run_move_tasks()").fetchone()
    assert row is not None
    return int(row[0])


def tasks(sqs: Sqs, **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs("ListMessageMoveTasks", SourceArn=SOURCE, **more)["Results"]
    return found


def test_messages_go_back_to_where_they_came_from(q: Sqs) -> None:
    q.create("other", RedrivePolicy=redrive("dead", 1))
    bury(q, "a", "b")
    bury(q, "c", queue="other")

    start(q)
    assert q.counts("dead") == (3, 0, 0)
    assert run(q) == 3

    assert q.bodies("q") == ["a", "b"]
    assert q.bodies("other") == ["c"]
    (task,) = tasks(q)
    assert task.pop("StartedTimestamp") > 1_700_000_000_000
    assert task == {
        "Status": "COMPLETED",
        "SourceArn": SOURCE,
        "ApproximateNumberOfMessagesMoved": 3,
        "ApproximateNumberOfMessagesToMove": 3,
    }


def test_a_moved_message_begins_anew(q: Sqs) -> None:
    bury(q, "a")
    (before,) = q.receive("dead", AttributeNames=["All"], VisibilityTimeout=0)
    clock.advance(q.db, 10)
    start(q)
    run(q)

    (after,) = q.receive("q", AttributeNames=["All"], VisibilityTimeout=0)

    assert after["MessageId"] != before["MessageId"]
    assert after["Attributes"]["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in after["Attributes"]
    assert int(after["Attributes"]["SentTimestamp"]) > int(before["Attributes"]["SentTimestamp"])
    assert int(after["Attributes"]["ApproximateFirstReceiveTimestamp"]) > int(
        before["Attributes"]["ApproximateFirstReceiveTimestamp"]
    )
    assert q.receive("q") == []
    assert q.counts("dead") == (1, 0, 0)


def test_messages_can_go_to_another_queue(q: Sqs) -> None:
    q.create("rescue")
    bury(q, "a")
    q.send("dead", "sent here by hand")

    start(q, DestinationArn=ARN + "rescue")
    run(q)

    assert sorted(q.bodies("rescue")) == ["a", "sent here by hand"]
    assert tasks(q)[0]["DestinationArn"] == ARN + "rescue"


def test_a_rate_is_kept(q: Sqs) -> None:
    bury(q, *"abcde")
    start(q, MaxNumberOfMessagesPerSecond=2)
    moved = [run(q)]
    for _ in range(3):
        clock.advance(q.db, 1)
        moved.append(run(q))

    assert sum(moved) == 5
    assert all(each <= 3 for each in moved)
    (task,) = tasks(q)
    assert (task["Status"], task["MaxNumberOfMessagesPerSecond"]) == ("COMPLETED", 2)


def test_maintenance_carries_tasks_on(q: Sqs) -> None:
    bury(q, "a")
    start(q)

    maintain(q.db)

    assert q.bodies("q") == ["a"]


def test_messages_in_flight_stay_with_their_consumer(q: Sqs) -> None:
    bury(q, "a", "b")
    (held,) = q.receive("dead", 1)
    start(q)
    run(q)

    assert q.counts("dead") == (0, 1, 0)
    q.delete(held, "dead")
    assert q.bodies("q") == ["b"]


def test_a_task_can_be_cancelled(q: Sqs) -> None:
    bury(q, *"abcde")
    handle = start(q, MaxNumberOfMessagesPerSecond=1)
    assert tasks(q)[0]["TaskHandle"] == handle
    moved = run(q)

    answer = q("CancelMessageMoveTask", TaskHandle=handle)

    assert answer == {"ApproximateNumberOfMessagesMoved": moved}
    clock.advance(q.db, 100)
    assert run(q) == 0
    (task,) = tasks(q)
    assert task["Status"] == "CANCELLED"
    assert "TaskHandle" not in task
    again = q.refusal("CancelMessageMoveTask", TaskHandle=handle)
    assert (again.code, again.status) == ("ResourceNotFoundException", 404)


def test_a_task_fails_when_its_destination_is_deleted(q: Sqs) -> None:
    q.create("rescue")
    bury(q, *"abc")
    start(q, DestinationArn=ARN + "rescue", MaxNumberOfMessagesPerSecond=1)
    run(q)
    q("DeleteQueue", QueueUrl="rescue")
    clock.advance(q.db, 2)
    run(q)

    (task,) = tasks(q)

    assert task["Status"] == "FAILED"
    assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert q.counts("dead")[0] + task["ApproximateNumberOfMessagesMoved"] == 3


def test_a_message_without_origin_stays(q: Sqs) -> None:
    q.send("dead", "nobody's")
    start(q)
    run(q)

    (task,) = tasks(q)
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert q.bodies("dead") == ["nobody's"]


def test_the_source_is_a_dead_letter_queue(q: Sqs) -> None:
    refusal = q.refusal("StartMessageMoveTask", SourceArn=ARN + "q")

    assert refusal.code == "InvalidParameterValue"
    assert refusal.message == "Source queue must be configured as a Dead Letter Queue."


def test_source_and_destination_exist(q: Sqs) -> None:
    for request, name in (
        ({"SourceArn": ARN + "none"}, "SourceArn"),
        ({"SourceArn": SOURCE, "DestinationArn": ARN + "none"}, "DestinationArn"),
    ):
        refusal = q.refusal("StartMessageMoveTask", **request)
        assert (refusal.code, refusal.status) == ("ResourceNotFoundException", 404)
        assert refusal.message == (
            f"The resource that you specified for the {name} parameter doesn't exist."
        )


def test_a_source_has_one_running_task(q: Sqs) -> None:
    start(q)

    refusal = q.refusal("StartMessageMoveTask", SourceArn=SOURCE)

    assert refusal.code == "InvalidParameterValue"
    assert refusal.message == (
        "There is already a task running. "
        "Only one active task is allowed for a source queue arn at a given time."
    )
    run(q)
    start(q)


def test_rates_and_pages_have_their_ranges(q: Sqs) -> None:
    for rate in (0, 501):
        refusal = q.refusal(
            "StartMessageMoveTask", SourceArn=SOURCE, MaxNumberOfMessagesPerSecond=rate
        )
        assert refusal.code == "InvalidParameterValue"
    for most in (0, 11):
        refusal = q.refusal("ListMessageMoveTasks", SourceArn=SOURCE, MaxResults=most)
        assert refusal.code == "InvalidParameterValue"


def test_tasks_are_listed_newest_first(q: Sqs) -> None:
    assert q("ListMessageMoveTasks", SourceArn=SOURCE) == {}
    for _ in range(3):
        start(q)
        clock.advance(q.db, 1)
        run(q)

    stamps = [task["StartedTimestamp"] for task in tasks(q, MaxResults=10)]

    assert stamps == sorted(stamps, reverse=True)
    assert [task["StartedTimestamp"] for task in tasks(q)] == stamps[:1]


def test_handles_of_tasks_are_checked(q: Sqs) -> None:
    def handle(**parts: str) -> str:
        return base64.b64encode(json.dumps(parts).encode()).decode()

    nothing = q.refusal("CancelMessageMoveTask", TaskHandle="foobared")
    assert (nothing.code, nothing.status) == ("InvalidParameterValue", 400)
    assert nothing.message == "Value for parameter TaskHandle is invalid."
    source = q.refusal(
        "CancelMessageMoveTask", TaskHandle=handle(taskId="x", sourceArn=ARN + "none")
    )
    assert (
        source.message
        == "The resource that you specified for the SourceArn parameter doesn't exist."
    )
    task = q.refusal("CancelMessageMoveTask", TaskHandle=handle(taskId="x", sourceArn=SOURCE))
    assert (task.code, task.message) == ("ResourceNotFoundException", "Task does not exist.")
