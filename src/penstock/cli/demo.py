"""penstock demo: an order stream, three queues, and what becomes of every order.

From top to bottom: the command, one run, the topic and its queues, the threads, what is shown, and
the archive and report that Spark makes of it.  `demo_checks` has the orders and the checks.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import platformdirs
import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from penstock.cli.demo_checks import (
    DELAY,
    PRIORITY,
    QUEUES,
    Batch,
    DemoQueue,
    Finding,
    HandlerFailed,
    Kind,
    Line,
    Plan,
    Record,
    Result,
)
from penstock.cli.output import error, fields
from penstock.cli.session import AnyConnection, Session, command
from penstock.client import calls
from penstock.errors import UnknownTopic
from penstock.models import ClaimedMessage, Ordering
from penstock.postgres.call import run

FAILED = 1
PREFIX = "penstock-demo-"
LEASE = timedelta(seconds=30)
IDLE_SECONDS = 0.02
TICK_SECONDS = 0.25
LONGEST_SECONDS = 45.0
# The rate shown while it runs is that of the last two seconds.
RATE_SECONDS = 2.0
LATENCY = "latency: from publishing to the first delivery, without the delayed order"
STEPS = (
    "queue create billing --topic orders",
    "message publish orders '{\"order\": 7}' --key customer-7",
    "message consume billing --ack",
    "queue show billing",
    "doctor",
)
SPARK_MISSING = "pip install 'penstock-mq[spark]' adds a last act: an archive and a report"
_SPARK_PACKAGES = ("pyspark", "deltalake", "adbc_driver_postgresql")

Connect = Callable[[], AnyConnection]


# The command.


def demo(
    session: Session,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Where the archive and the report go.",
            show_default="the user's data folder",
        ),
    ] = None,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="Without the archive and the report.")
    ] = False,
) -> None:
    """Publish an order stream to three queues and show what becomes of it, in under a minute.

    Everything happens in a throw-away topic that is removed at the end. What stays is an archive of
    the orders and a report to look at, if the package was installed with its extra spark.
    """
    removed = remove_abandoned(session.connection)
    if removed:
        session.output.note(f"removed what {removed} interrupted demos had left behind")
    plan = Plan.made()
    session.output.note(f"publishing {len(plan.orders):,} orders to 3 queues, about 15 s …")
    folder = None
    if not no_spark and has_spark():
        folder = (out or default_folder()).expanduser().absolute()
    report = play(session, plan, folder)
    _show(session, report)
    if not report.ok:
        error("the accounts do not add up: see the lines marked ✗")
        raise typer.Exit(FAILED)


def register(app: typer.Typer) -> None:
    command(app, example="penstock demo")(demo)


# One run.


@dataclass(frozen=True, slots=True)
class Archive:
    """What Spark made: a Delta table of the orders, and a report of what became of them."""

    archive: str
    report: str


@dataclass(frozen=True, slots=True)
class Report:
    lines: list[Line]
    findings: list[Finding]
    seconds: float
    archive: Archive | None

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)


def play(session: Session, plan: Plan, folder: Path | None) -> Report:
    """Run the whole demo; whatever happens, nothing of it stays in the database."""
    started = time.monotonic()
    output = session.output
    with demo_topic(session.connection) as topic:
        record = Record()
        threads = Threads(plan, topic, record, session.new_connection)
        try:
            threads.start()
            watch(session.connection, threads, output.aside if output.json else output.people)
        finally:
            threads.stop()
        if threads.problem is not None:
            raise threads.problem
        result = collect(session.connection, plan, topic, record)
        findings, archive = result.findings(), None
        if folder is not None:
            archive, finding = write_archive(session, topic, plan, folder)
            findings.append(finding)
    return Report(result.lines(), findings, round(time.monotonic() - started, 1), archive)


def collect(connection: AnyConnection, plan: Plan, topic: str, record: Record) -> Result:
    """What this process has seen, beside what the engine counts."""
    names = {queue.name: queue_name(topic, queue) for queue in QUEUES}
    return Result(
        plan,
        {name: record.of(name) for name in names},
        {name: run(connection, calls.queue_statistics(each)) for name, each in names.items()},
        {name: run(connection, calls.list_dead_letters(each)) for name, each in names.items()},
    )


# The throw-away topic and its queues.

# The session that runs a demo holds this lock on its topic's name, so that another demo can tell
# a running one from an abandoned one.
_LOCK = "select pg_try_advisory_lock(hashtextextended(%s, 0))"
_UNLOCK = "select pg_advisory_unlock(hashtextextended(%s, 0))"


@contextmanager
def demo_topic(connection: AnyConnection) -> Iterator[str]:
    """A topic of its own name with the three queues; removed at the end."""
    topic = f"{PREFIX}{secrets.token_hex(4)}"
    try:
        create_topic(connection, topic)
        yield topic
    finally:
        _remove_topic(connection, topic)


def create_topic(connection: AnyConnection, topic: str) -> None:
    _lock(connection, topic)
    run(connection, calls.create_topic(topic))
    for queue in QUEUES:
        settings = dict(queue.settings)
        ordering = Ordering(settings.pop("ordering", Ordering.STANDARD))
        name = queue_name(topic, queue)
        run(connection, calls.create_queue(name, topic=topic, ordering=ordering, **settings))


def queue_name(topic: str, queue: DemoQueue) -> str:
    return f"{topic}-{queue.name}"


def remove_abandoned(connection: AnyConnection) -> int:
    """Remove what interrupted demos left behind; returns how many there were."""
    removed = 0
    for topic in run(connection, calls.list_topics()):
        if topic.name.startswith(PREFIX) and _lock(connection, topic.name):
            _remove_topic(connection, topic.name)
            connection.execute(_UNLOCK, (topic.name,))
            removed += 1
    return removed


def _remove_topic(connection: AnyConnection, topic: str) -> None:
    try:
        run(connection, calls.delete_topic(topic))
    except UnknownTopic:
        return


def _lock(connection: AnyConnection, topic: str) -> bool:
    row = connection.execute(_LOCK, (topic,)).fetchone()
    return bool(row and row[0])


# The threads: one publishes, the others consume.


class Threads:
    """All threads of one demo; the first error of any ends them all and is kept."""

    def __init__(self, plan: Plan, topic: str, record: Record, connect: Connect) -> None:
        self.plan, self.topic, self.record, self._connect = plan, topic, record, connect
        self.problem: Exception | None = None
        self._started = time.monotonic()
        self._stopping = threading.Event()
        self._all_published = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(self._publish_all,), daemon=True)]
        for queue in QUEUES:
            for _ in range(queue.consumers):
                work = (self._consume, queue)
                self._threads.append(threading.Thread(target=self._run, args=work, daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every thread finish what it has in hand, and wait for it."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def are_done(self) -> bool:
        if self.problem is not None or self.elapsed() > LONGEST_SECONDS:
            return True  # the checks will say what is missing
        return self._all_published.is_set() and all(self._is_done(queue) for queue in QUEUES)

    def _is_done(self, queue: DemoQueue) -> bool:
        """Every order is done, but for those that will be dead once their last attempt failed."""
        orders = self.plan.orders.values()
        wanted = len(orders) - sum(queue.will_be_dead(order) for order in orders)
        return self.record.done_count(queue.name) >= wanted and self.record.failed_count(
            queue.name
        ) >= queue.expected_failures(orders)

    def _run(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            with self._connect() as connection:
                work(connection, *arguments)
        except Exception as problem:  # noqa: BLE001 - shown by the main thread
            self.problem = self.problem or problem
            self._stopping.set()

    def _publish_all(self, connection: AnyConnection) -> None:
        start = time.monotonic()
        for batch in self.plan.batches:
            pause = start + batch.at.total_seconds() - time.monotonic()
            if self._stopping.wait(max(0.0, pause)):
                return
            self._publish(connection, batch)
        self._all_published.set()

    def _publish(self, connection: AnyConnection, batch: Batch) -> None:
        kind = batch.orders[0].kind
        self.record.publishing(order.number for order in batch.orders)
        run(
            connection,
            calls.publish_many(
                self.topic,
                [order.payload for order in batch.orders],
                keys=[order.customer for order in batch.orders],
                delays=[DELAY] if kind is Kind.DELAYED else None,
                priorities=[PRIORITY] if kind is Kind.PRIORITY else None,
            ),
        )

    def _consume(self, connection: AnyConnection, queue: DemoQueue) -> None:
        name, token = queue_name(self.topic, queue), secrets.token_hex(8)
        while not self._stopping.is_set():
            messages = run(connection, calls.consume_batch(name, token, LEASE, queue.batch))
            if messages:
                self._handle(connection, queue, token, messages)
            else:
                self._stopping.wait(IDLE_SECONDS)

    def _handle(
        self,
        connection: AnyConnection,
        queue: DemoQueue,
        token: str,
        messages: Sequence[ClaimedMessage],
    ) -> None:
        self.record.delivered(queue.name, map(_attempt, messages))
        good: dict[int, ClaimedMessage] = {}
        for message in messages:
            assert isinstance(message.payload, dict)
            try:
                queue.handle(message.payload, message.attempt)
                good[message.id] = message
            except HandlerFailed as failure:
                self._nack(connection, queue, token, message, str(failure))
        if good:
            call = calls.ack_many(queue_name(self.topic, queue), list(good), token)
            held = run(connection, call)
            self.record.done(queue.name, [_attempt(good[each]) for each in good if each in held])

    def _nack(
        self,
        connection: AnyConnection,
        queue: DemoQueue,
        token: str,
        message: ClaimedMessage,
        reason: str,
    ) -> None:
        name, delay = queue_name(self.topic, queue), queue.retry_delay
        call = calls.nack(name, message.id, token, delay=delay, error=reason)
        if run(connection, call) is not None:
            self.record.failed(queue.name, [_attempt(message)])


def _attempt(message: ClaimedMessage) -> tuple[int, int]:
    """The order's number and the attempt's."""
    assert isinstance(message.payload, dict)
    number = message.payload["order"]
    assert isinstance(number, int)
    return number, message.attempt


# What is shown: a live table while it runs, and the summary at the end.


def watch(connection: AnyConnection, threads: Threads, console: Console) -> None:
    """Until the threads are done; on a terminal, with a live table."""
    if not console.is_terminal:
        while not threads.are_done():
            time.sleep(TICK_SECONDS)
        return
    seen: deque[tuple[float, dict[str, int]]] = deque(maxlen=round(RATE_SECONDS / TICK_SECONDS))
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while not threads.are_done():
            counts = {queue.name: threads.record.done_count(queue.name) for queue in QUEUES}
            seen.append((time.monotonic(), counts))
            live.update(_live_table(connection, threads, seen), refresh=True)
            time.sleep(TICK_SECONDS)


def _live_table(
    connection: AnyConnection, threads: Threads, seen: Sequence[tuple[float, dict[str, int]]]
) -> RenderableType:
    record, planned = threads.record, len(threads.plan.orders)
    (then, before), (now, after) = seen[0], seen[-1]
    table = _table("queue", "waiting", "in flight", "done", "retried", "dead", "msgs/s")
    for queue in QUEUES:
        name = queue.name
        counted = run(connection, calls.queue_statistics(queue_name(threads.topic, queue)))
        rate = (after[name] - before[name]) / (now - then) if now > then else 0
        table.add_row(
            name,
            f"{counted.pending_count:,}",
            f"{counted.processing_count:,}",
            f"{record.done_count(name):,}",
            f"{record.failed_count(name):,}",
            f"{counted.dead_count:,}",
            f"{rate:,.0f}",
        )
    said = f"{len(record.published):,} of {planned:,} orders published, {threads.elapsed():.0f} s"
    return Group(Text(said), table)


def _show(session: Session, report: Report) -> None:
    if session.output.json:
        session.output.record(
            {
                "queues": [fields(line) for line in report.lines],
                "findings": [fields(finding) for finding in report.findings],
                "seconds": report.seconds,
                "ok": report.ok,
                "archive": report.archive and report.archive.archive,
                "report": report.archive and report.archive.report,
            }
        )
        return
    console = session.output.people
    console.print(_summary(report.lines))
    console.print(Text(LATENCY, style="dim"))
    console.print()
    for finding in report.findings:
        mark = ("✓ ", "green") if finding.ok else ("✗ ", "bold red")
        console.print(Text.assemble(mark, finding.text))
    if report.archive is not None:
        _show_archive(console, report.archive)
    elif not has_spark():
        session.output.note(SPARK_MISSING)
    console.print()
    console.print(Text("Try next:", style="bold"))
    for step in STEPS:
        console.print(Text(f"  {_program()} {step}"), soft_wrap=True)


def _summary(lines: Sequence[Line]) -> Table:
    table = _table(
        *("queue", "published", "done", "retried", "dead", "msgs/s", "p50", "p95", "p99"),
        "settings",
    )
    table.columns[-1].justify = "left"
    for line in lines:
        latencies = (line.p50_ms, line.p95_ms, line.p99_ms)
        table.add_row(
            line.queue,
            f"{line.published:,}",
            f"{line.done:,}",
            f"{line.retried:,}",
            f"{line.dead:,}",
            f"{line.per_second:,.0f}",
            *("-" if value is None else f"{value:,.0f} ms" for value in latencies),
            Text(line.about, style="dim"),
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name == "queue" else "right")
    return table


def _show_archive(console: Console, made: Archive) -> None:
    console.print()
    console.print(Text.assemble(("Archive: ", "bold"), f"{made.archive} (Delta)"), soft_wrap=True)
    link = Text(made.report, style=f"link {Path(made.report).as_uri()}")
    console.print(Text.assemble(("Report:  ", "bold"), link), soft_wrap=True)


def _program() -> str:
    """How this program can be called again from the current folder."""
    here = Path(sys.argv[0])
    found = shutil.which("penstock")
    if found and Path(found).resolve() == here.resolve():
        return "penstock"
    try:
        return str(here.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(here)


# The archive and the report.


def has_spark() -> bool:
    """Spark comes with an extra: without it the demo has neither archive nor report."""
    return all(find_spec(name) is not None for name in _SPARK_PACKAGES)


def default_folder() -> Path:
    return Path(platformdirs.user_data_dir("penstock")) / "demo"


def write_archive(
    session: Session, topic: str, plan: Plan, folder: Path
) -> tuple[Archive, Finding]:
    """Archive the topic to Delta and analyse its queues, as `penstock pipeline` would."""
    from penstock.spark import pipelines
    from penstock.spark.pipelines.run import open_session
    from penstock.spark.spark_session import STACK

    # A run of seconds ends before Java's optimising compiler pays off.
    short = {
        "spark.driver.extraJavaOptions": f"{STACK} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    archive, report = folder / "orders", folder / "report.html"
    for old in (archive, folder / "analysis"):
        shutil.rmtree(old, ignore_errors=True)
    with open_session(log=folder / "spark.log", conf=short) as spark:
        session.output.note(f"archiving {topic} to Delta …")
        pipelines.archive(topic, archive, url=session.dsn, spark=spark)
        session.output.note("making the report …")
        pipelines.analyse(
            folder / "analysis",
            topics=topic,
            title="What became of the demo's orders",
            report=report,
            url=session.dsn,
            spark=spark,
        )
    return Archive(str(archive), str(report)), _check_archive(archive, plan)


def _check_archive(archive: Path, plan: Plan) -> Finding:
    """Every order is in the archive, and none twice, as another reader of Delta sees it."""
    from deltalake import DeltaTable

    values = DeltaTable(str(archive)).to_pyarrow_table(columns=["value"])["value"].to_pylist()
    orders = [json.loads(value)["order"] for value in values]
    found = f"{len(set(orders))} of {len(plan.orders)} orders in {len(orders)} rows of Delta"
    return Finding(sorted(orders) == sorted(plan.orders), f"archive: {found}")
