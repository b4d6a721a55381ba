"""A queue at work, with and without a stream that reads its topic."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from bench.spark.measure import Contest
from bench.spark.place import TOPIC
from bench.spark.streams import clear, our_stream

if TYPE_CHECKING:
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
            contest.seconds.setdefault(name, []).append(_turns(place, seconds))
            if query is not None:
                query.stop()
    return contest


def _turns(place: Place, seconds: float, batch: int = 10) -> float:
    """Messages that went the whole way, per second."""
    body = [json.dumps({"note": "x" * 140})] * batch
    done = 0
    began = time.monotonic()
    with place.connect() as conn:
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
    return done / (time.monotonic() - began)
