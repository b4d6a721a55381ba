"""A life of messages, tasks and mistakes with planted secrets, all logs wide open.

python -m prove.attack.secretive DSN FOLDER SABOTAGE

Whatever errors are raised are written down, as a person would see them; so are all log lines of
every level, and all spans.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import penstock
import penstock.tasks
from penstock.client import calls, cloudevents
from penstock.observe import logs, tracing
from penstock.tasks import TaskWorker
from prove.attack.sabotage import SABOTAGES

if TYPE_CHECKING:
    from collections.abc import Awaitable

# Names by which the caller knows his own things; an error may tell him which it was.
NAMES = frozenset({"planted-dedupe-5ec7e7", "planted-tenant-5ec7e7", "planted-key-5ec7e7"})
PLANTED = {
    kind: f"planted-{kind}-5ec7e7"
    for kind in (
        *("payload", "header", "key", "dedupe", "correlation", "tenant", "reason", "exception"),
        *("password", "task", "meta", "result", "attribute", "body", "secret", "token", "event"),
    )
}


@dataclass
class Order:
    number: int
    note: str


class Life:
    """What is done; each mistake is written down as it is told."""

    def __init__(self, dsn: str, folder: Path) -> None:
        # The server trusts everybody, so any password will do.
        self._dsn = f"{dsn} password={PLANTED['password']}"
        self._told = (folder / "errors.txt").open("w", encoding="utf-8")

    async def live(self) -> None:
        await self._messages()
        await self._tasks()
        await self._bad_addresses()

    async def _messages(self) -> None:
        async with penstock.connect(self._dsn, retry_for=timedelta(seconds=1)) as mq:
            for queue in ("good", "bad", "typed", "loud"):
                await mq.create_queue(queue, topic=queue, max_delivery_attempts=2)
                await self._publish(mq, queue)
            await self._bad_publishing(mq)
            await self._work(mq)
            await self._reserved(mq)

    async def _publish(self, mq: Any, topic: str) -> None:
        given = {
            "headers": {"authorization": PLANTED["header"]},
            "key": PLANTED["key"],
            "correlation_id": PLANTED["correlation"],
            "tenant_id": PLANTED["tenant"],
        }
        await mq.publish(topic, {"number": PLANTED["payload"], "note": "x"}, **given)
        await mq.publish(topic, PLANTED["payload"], dedupe_key=PLANTED["dedupe"], **given)
        await mq.publish_many(topic, [{"card": PLANTED["payload"]}] * 2)
        event = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
        await mq.publish(topic, **cloudevents.write({**event, "data": PLANTED["event"]}))

    async def _bad_publishing(self, mq: Any) -> None:
        secret = PLANTED["payload"]
        for payload in (
            {"a": secret, "b": float("nan")},
            {"a": secret, "b": b"x"},
            {"a": secret, "b": object()},
            {"a": f"{secret}\0"},
            {"a": f"{secret}\ud800"},
            {"a": secret * 1_000_000},
        ):
            await self._expect(mq.publish("good", payload))
        await self._expect(mq.publish("nowhere", secret))
        await self._expect(mq.publish("good", secret, headers={"a": f"{PLANTED['header']}\0"}))
        for name in ("key", "correlation_id", "tenant_id", "dedupe_key"):
            await self._expect(mq.publish("good", secret, **{name: secret + "x" * 2000}))
            await self._expect(mq.publish("good", secret, **{name: f"{secret}\0"}))
        for event in ({"specversion": secret}, {"data_base64": secret}, {"time": secret}):
            await self._expect(self._event(mq, event))

    async def _event(self, mq: Any, event: Any) -> None:
        await mq.publish("good", **cloudevents.write(event))

    async def _work(self, mq: Any) -> None:
        # Errors of handlers quote payloads here; this keeps their texts out of the log.
        worker = penstock.Worker(mq, log_errors="kind")
        soon = timedelta(milliseconds=50)

        @worker.handler("good", polling_interval=soon)
        async def good(_message: Any) -> None:
            return

        @worker.handler("bad", polling_interval=soon)
        async def bad(message: Any) -> None:
            raise ValueError(f"{PLANTED['exception']} {message.payload}")

        @worker.handler("typed", payload_type=Order, polling_interval=soon)
        async def typed(_message: Any) -> None:
            return

        @worker.handler("loud", polling_interval=soon)
        async def loud(message: Any) -> None:
            await message.nack(error=PLANTED["reason"])

        running = asyncio.create_task(worker.run(signals=False))
        for queue in ("good", "bad", "typed", "loud"):
            await self._drained(mq, queue)
        # Somebody cuts every connection: what was under way is said to be repeated.
        await self._cut()
        await self._expect(self._publish(mq, "good"))
        await self._drained(mq, "good")
        await worker.stop()
        await running

    async def _drained(self, mq: Any, queue: str) -> None:
        for _ in range(400):
            counts = await mq.queue_statistics(queue)
            if not counts.pending_count + counts.processing_count:
                return
            await asyncio.sleep(0.05)

    async def _cut(self) -> None:
        async with await penstock_connection(self._dsn) as db:
            await db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )

    async def _reserved(self, mq: Any) -> None:
        call = calls.nack("good", 1, PLANTED["token"], error=PLANTED["reason"])
        await self._expect(mq.run(call))
        await self._expect(mq.create_queue("odd", filter={"nonsense": PLANTED["payload"]}))

    async def _tasks(self) -> None:
        queue = penstock.tasks.connect(self._dsn)
        await queue.store.create_tables()
        async with queue:
            for topic in ("mail", "fails"):
                given = {"meta": {"m": PLANTED["meta"]}, "max_attempts": 1}
                await queue.enqueue(topic, {"t": PLANTED["task"]}, **given)
                key = f"{PLANTED['dedupe']} {topic}"
                await queue.enqueue(topic, PLANTED["task"], dedupe_key=key, **given)
                await self._expect(queue.enqueue(topic, dedupe_key=key))
            await self._expect(queue.enqueue("mail", meta={"m": f"{PLANTED['meta']}\0"}))
            await self._expect(queue.enqueue("mail", {"t": PLANTED["task"], "n": float("inf")}))
            soon = timedelta(milliseconds=50)
            worker = TaskWorker(queue, polling_interval=soon, log_errors="kind")

            @worker.handler("mail", keep_result=True)
            async def mail(_task: Any) -> str:
                return PLANTED["result"]

            @worker.handler("fails")
            async def fails(_task: Any) -> None:
                raise ValueError(PLANTED["exception"])

            await worker.drain()

    async def _bad_addresses(self) -> None:
        secret = PLANTED["password"]
        for dsn in (
            f"postgresql://u:{secret}@127.0.0.1:1/d",
            f"postgresql://u:{secret}@nowhere.invalid/d",
            f"postgresql://u:{secret}@host:port/d",
            f"postgresql://u:{secret}%zz@h/d",
            f"host=127.0.0.1 port=1 password='{secret}",
            f"{self._dsn} dbname=nowhere",
            f"{self._dsn} nonsense={secret}",
        ):
            await self._expect(self._opened(dsn))
        for dsn in (f"mysql://u:{secret}@127.0.0.1:1/d", f"mysql://u:{secret}@h/d?x={secret}"):
            await self._expect(self._tasks_opened(dsn))

    async def _opened(self, dsn: str) -> None:
        quick = {"retry_for": timedelta(0), "connect_timeout": timedelta(seconds=1)}
        async with penstock.connect(dsn, **quick) as mq:
            await mq.list_topics()

    async def _tasks_opened(self, dsn: str) -> None:
        async with penstock.tasks.connect(dsn, retry_for=timedelta(0)) as queue:
            await queue.stats()

    async def _expect(self, call: Awaitable[Any]) -> None:
        try:
            await call
        except Exception as problem:  # noqa: BLE001 - told as a person would see it
            self._told.write(f"{type(problem).__name__}: {problem}\n{problem!r}\n")


async def penstock_connection(dsn: str) -> Any:
    import psycopg  # noqa: PLC0415

    return await psycopg.AsyncConnection.connect(dsn, autocommit=True)


def main(dsn: str, place: str, chosen: str) -> None:
    folder = Path(place)
    logging.basicConfig(filename=folder / "log.txt", level=logging.DEBUG)
    logs.start()
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.start(provider)
    with SABOTAGES.get(chosen, nullcontext)():
        asyncio.run(Life(dsn, folder).live())
    spans = "\n".join(span.to_json() for span in exporter.get_finished_spans())
    (folder / "spans.txt").write_text(spans, encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception:
        traceback.print_exc()
        raise
