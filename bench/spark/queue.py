"""A queue at work, with and without a stream that reads its topic."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from bench.spark.measure import Contest
from bench.spark.place import TOPIC
from bench.spark.streams import clear, our_stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from bench.spark.place import Place


COMPANY = {
    "alone": None,
    "beside a stream": "1 second",
    # The next batch begins when the last has ended, so Spark never rests.
    "beside a restless stream": "0 seconds",
}


def queue_beside_a_stream(place: Place, seconds: float, rounds: int) -> Iterator[Contest]:
    """Publish + claim + ack with and without a stream: Spark as one of many, and standing back."""
    for standing in ("", ", Spark standing back"):
        contest = Contest(f"publish + claim + ack, per second{standing}", 0)
        if standing:
            _stand_back()
        for _ in range(rounds):
            for name, every in COMPANY.items():
                rate, used = _beside(place, every, seconds)
                contest.seconds.setdefault(name, []).append(rate)
                contest.notes[f"{name}, µs of its session"] = used
        yield contest


def _beside(place: Place, every: str | None, seconds: float) -> tuple[float, float]:
    place.fresh()
    clear(place)
    with place.connect() as conn:
        conn.execute("select penstock.create_queue('work', %s)", (TOPIC,))
    if every is None:
        return _turns(place, seconds)
    query = our_stream(place, limit=100_000, every=every)
    try:
        time.sleep(5)
        return _turns(place, seconds)
    finally:
        query.stop()


def _stand_back() -> None:
    """Give Spark the lowest priority, for good: as near to a machine of its own as one comes here.

    What is left of the disturbance is what the database has to do for the stream.
    """
    for each in psutil.Process().children(recursive=True):
        # Some end while one looks at them.
        with suppress(psutil.Error, ProcessLookupError):
            if "postgres" not in each.name():
                for thread in each.threads():
                    os.setpriority(os.PRIO_PROCESS, thread.id, 19)


def _turns(place: Place, seconds: float, batch: int = 10) -> tuple[float, float]:
    """Messages that went the whole way, per second, and what each cost the server's session.

    The machine has two cores, and Spark takes what it can get of both; what the session used shows
    whether the database had more to do.
    """
    body = [json.dumps({"note": "x" * 140})] * batch
    done = 0
    with place.connect() as conn:
        began, used = time.monotonic(), _used(conn)
        while time.monotonic() < began + seconds:
            conn.execute(
                "select count(*) from penstock.publish_messages(%s, %s::jsonb[])", (TOPIC, body)
            )
            ids = [
                row[0]
                for row in conn.execute(
                    "select message_id from penstock.consume_messages_batch('work', 'me', 30, %s)",
                    (batch,),
                )
            ]
            conn.execute("select count(*) from penstock.ack_messages('work', %s, 'me')", (ids,))
            done += len(ids)
        return done / (time.monotonic() - began), (_used(conn) - used) / done * 1e6


def _used(conn: psycopg.Connection) -> float:
    """Seconds of processor time of a session."""
    times = psutil.Process(conn.info.backend_pid).cpu_times()
    return times.user + times.system
