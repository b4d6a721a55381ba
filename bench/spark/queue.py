"""A queue at work, with and without a stream that reads its topic."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import psutil

from bench.spark.measure import Contest
from bench.spark.place import TOPIC
from bench.spark.streams import clear, our_stream

if TYPE_CHECKING:
    import psycopg

    from bench.spark.place import Place


def queue_beside_a_stream(place: Place, seconds: float) -> Contest:
    """Publish + claim + ack with and without a stream on the same topic."""
    contest = Contest("publish + claim + ack, per second", 0)
    for _ in range(2):
        for name in ("alone", "beside a stream"):
            place.fresh()
            clear(place)
            with place.connect() as conn:
                conn.execute("select penstock.create_queue('work', %s)", (TOPIC,))
            query = None
            if name != "alone":
                query = our_stream(place, available_now=False, limit=100_000)
                time.sleep(5)
            rate, used = _turns(place, seconds)
            contest.seconds.setdefault(name, []).append(rate)
            contest.notes[f"{name}, µs of its session"] = used
            if query is not None:
                query.stop()
    return contest


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
