"""Long polls: woken by sends and by time, on nobody's connection, answered on a stop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.settings import Settings
from penstock.sqs.http.application import Application
from penstock.sqs.http.http_server import settings_for
from penstock.sqs.server_options import Options
from tests.fixtures.patience import eventually_async, eventually_sync
from tests.sqs import raw
from tests.sqs.running import Running, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
def queue(fresh_door: Running) -> Any:
    sqs = fresh_door.boto3()
    url = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "3600"})["QueueUrl"]
    yield sqs, url
    sqs.close()


def _polls(door: Running) -> int:
    return door.server.application.polls.count


def test_a_poll_is_woken_by_a_send(fresh_door: Running, queue: Any) -> None:
    sqs, url = queue
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        eventually_sync(lambda: _polls(fresh_door) == 1)
        sqs.send_message(QueueUrl=url, MessageBody="wake up")
        [message] = waiting.result()["Messages"]
    assert message["Body"] == "wake up"


def test_the_queues_own_wait_is_used_when_the_request_has_none(
    fresh_door: Running, queue: Any
) -> None:
    sqs, url = queue
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"ReceiveMessageWaitTimeSeconds": "20"})
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(sqs.receive_message, QueueUrl=url)
        eventually_sync(lambda: _polls(fresh_door) == 1)
        # Zero in the request wins over the queue's.
        assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)
        sqs.send_message(QueueUrl=url, MessageBody="x")
        assert waiting.result()["Messages"]


def test_a_poll_is_woken_when_a_claim_ends(fresh_door: Running, queue: Any) -> None:
    sqs, url = queue
    sqs.send_message(QueueUrl=url, MessageBody="again")
    [message] = sqs.receive_message(QueueUrl=url)["Messages"]
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        eventually_sync(lambda: _polls(fresh_door) == 1)
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=1
        )
        [again] = waiting.result()["Messages"]
    assert again["MessageId"] == message["MessageId"]


def test_every_waiting_poll_gets_its_message(fresh_door: Running, queue: Any) -> None:
    sqs, url = queue
    with ThreadPoolExecutor(12) as pool:
        waiting = [
            pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20) for _ in range(10)
        ]
        eventually_sync(lambda: _polls(fresh_door) == 10)
        entries = [{"Id": str(n), "MessageBody": str(n)} for n in range(10)]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
        got = sorted(each.result()["Messages"][0]["Body"] for each in waiting)
    assert got == sorted(map(str, range(10)))


def test_a_publisher_in_sql_wakes_a_poll(fresh_door: Running, queue: Any) -> None:
    sqs, url = queue
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        eventually_sync(lambda: _polls(fresh_door) == 1)
        with psycopg.connect(fresh_door.dsn) as conn:
            conn.execute("select penstock.publish_message('q', '{\"from\": \"sql\"}')")
        assert waiting.result()["Messages"][0]["Body"] == '{"from": "sql"}'


def test_a_poll_on_a_queue_that_is_deleted_ends_with_its_error(
    fresh_door: Running, queue: Any
) -> None:
    sqs, url = queue
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20)
        eventually_sync(lambda: _polls(fresh_door) == 1)
        sqs.delete_queue(QueueUrl=url)
        problem = waiting.exception()
    assert isinstance(problem, sqs.exceptions.QueueDoesNotExist)


def test_a_client_that_hangs_up_leaves_no_poll_and_takes_no_message(
    fresh_door: Running, queue: Any
) -> None:
    import http.client
    from urllib.parse import urlsplit

    sqs, url = queue
    made = raw.signed(fresh_door.url, "ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20})
    connection = http.client.HTTPConnection(urlsplit(fresh_door.url).netloc)
    connection.request("POST", "/", made.body, made.headers)
    eventually_sync(lambda: _polls(fresh_door) == 1)
    connection.close()
    eventually_sync(lambda: _polls(fresh_door) == 0)
    sqs.send_message(QueueUrl=url, MessageBody="for somebody else")
    [message] = sqs.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_stopping_answers_open_polls_and_loses_nothing(fresh_dsn: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        with running(fresh_dsn, tmp_path) as door:
            sqs = door.boto3()
            url = sqs.create_queue(QueueName="q")["QueueUrl"]
            waiting = [
                pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20) for _ in range(5)
            ]
            eventually_sync(lambda: _polls(door) == 5)
        answers = [each.result() for each in waiting]
        sqs.close()
    assert all("Messages" not in answer for answer in answers)


def test_messages_sent_while_the_server_stops_are_delivered_or_stay(
    fresh_dsn: str, tmp_path: Path
) -> None:
    """Whatever is in flight when the server stops was given to a client."""
    with ThreadPoolExecutor(16) as pool:
        with running(fresh_dsn, tmp_path) as door:
            sqs = door.boto3()
            url = sqs.create_queue(QueueName="q")["QueueUrl"]
            waiting = [
                pool.submit(sqs.receive_message, QueueUrl=url, WaitTimeSeconds=20) for _ in range(8)
            ]
            eventually_sync(lambda: _polls(door) == 8)
            with psycopg.connect(fresh_dsn) as conn:
                for number in range(8):
                    conn.execute("select penstock.publish_message('q', %s::text::jsonb)", (number,))
            conn.close()
        got = [body for each in waiting for body in _bodies(each.result())]
        sqs.close()
    with psycopg.connect(fresh_dsn) as conn:
        [(pending, processing)] = conn.execute(
            "select pending_count, processing_count from penstock.get_queue_statistics('q')"
        ).fetchall()
    assert processing == len(got)
    assert pending + processing == 8


def _bodies(answer: dict[str, Any]) -> list[str]:
    return [message["Body"] for message in answer.get("Messages", [])]


@pytest.fixture
async def unserved(fresh_dsn: str) -> AsyncIterator[Application]:
    """All of the server but its socket."""
    options = Options(auth=False, access_log=False)
    found = Application(settings_for(Settings(dsn=fresh_dsn), fresh_dsn), options)
    await found.open()
    yield found
    await found.close()


async def _ask(application: Application, action: str, body: str) -> bytes:
    headers = [(b"host", b"here"), (b"x-amz-target", f"AmazonSQS.{action}".encode())]
    response = await application.gateway.handle("POST", "/", headers, body.encode())
    assert response.status == 200, response.body
    return response.body


async def test_ten_thousand_idle_polls_need_few_connections(
    unserved: Application, fresh_dsn: str
) -> None:
    for number in range(20):
        await _ask(unserved, "CreateQueue", f'{{"QueueName": "q{number}"}}')
    polls = [
        asyncio.create_task(
            _ask(unserved, "ReceiveMessage", f'{{"QueueUrl": "q{n % 20}", "WaitTimeSeconds": 20}}')
        )
        for n in range(10_000)
    ]
    await eventually_async(lambda: unserved.polls.count == 10_000)
    connections = await asyncio.to_thread(_connections, fresh_dsn)
    assert connections <= 20
    # They are awake: each of the twenty queues' next message finds somebody.
    for number in range(20):
        await _ask(unserved, "SendMessage", f'{{"QueueUrl": "q{number}", "MessageBody": "x"}}')
    await eventually_async(lambda: unserved.polls.count <= 9_980)
    unserved.polls.stop()
    answers = await asyncio.gather(*polls)
    assert sum(answer != b"{}" for answer in answers) == 20


def _connections(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_threads_end_with_the_server(fresh_dsn: str, tmp_path: Path) -> None:
    before: set[threading.Thread] = set(threading.enumerate())
    with running(fresh_dsn, tmp_path):
        pass
    assert set(threading.enumerate()) <= before
