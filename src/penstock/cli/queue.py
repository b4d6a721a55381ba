"""penstock queue: the subscriptions that messages are consumed from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

from penstock.cli.arguments import QueueName, Yes, duration, duration_option, json_object
from penstock.cli.output import fields, grid
from penstock.cli.session import Session, command
from penstock.client import calls
from penstock.client.calls import looks
from penstock.client.facts import COUNTED_TO, Activity, QueueNow
from penstock.errors import UnknownQueue
from penstock.models import Notify, Ordering, QueueInfo, QueueStatistics

EVERY = timedelta(seconds=2)
_COUNTS = ("waiting", "blocked", "delayed", "retrying", "claimed", "dead")
_WATCHED = ("queue", *_COUNTS, "oldest", "in_s", "out_s", "paused", "blocked_by")

SomeQueues = Annotated[
    list[str] | None,
    typer.Argument(metavar="QUEUE", help="Only these queues.", show_default=False),
]
Row = dict[str, Any]

app = typer.Typer(
    name="queue",
    help="The subscriptions that messages are consumed from.",
    epilog="Example: penstock queue list",
    no_args_is_help=True,
)


@command(app, example="penstock queue create shipping --topic orders --ordering fifo")
def create(
    session: Session,
    queue: QueueName,
    *,
    topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="What to read. Default: a topic of the queue's name."),
    ] = None,
    ordering: Annotated[
        Ordering | None, typer.Option(help="What is promised about the order of messages.")
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(help="Deliveries before a message is dead; 0: never.", show_default=False),
    ] = None,
    start_at: Annotated[
        str | None,
        typer.Option(metavar="end|beginning|TIME", help="Where in the topic to begin."),
    ] = None,
    retry_base: Annotated[
        timedelta | None, duration_option("--retry-base", help="Wait before the first retry.")
    ] = None,
    retry_cap: Annotated[
        timedelta | None, duration_option("--retry-cap", help="Longest wait before a retry.")
    ] = None,
    retention: Annotated[
        timedelta | None,
        duration_option("--retention", help="Let unclaimed messages lapse after this."),
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="JSON",
            help='Take only messages that contain this, e.g. {"headers": {"region": "eu"}}.',
        ),
    ] = None,
    notify: Annotated[
        Notify | None, typer.Option(help="When publishing wakes waiting consumers.")
    ] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Delete the queue when it is not kept alive.")
    ] = False,
    keep_alive: Annotated[
        timedelta | None,
        duration_option("--keep-alive", help="How long an exclusive queue lives by itself."),
    ] = None,
) -> None:
    """Create a queue; one that exists with the same settings is left as it is."""
    number = session.run(
        calls.create_queue(
            queue,
            topic=topic,
            ordering=ordering,
            max_delivery_attempts=max_attempts,
            start_at=start_at,
            retry_base=retry_base,
            retry_cap=retry_cap,
            retention=retention,
            filter=None if filter_ is None else json_object(filter_, "--filter"),
            notify=notify,
            exclusive=exclusive or None,
            keep_alive=keep_alive,
        )
    )
    session.output.done({"id": number, "name": queue}, f"queue {queue} is ready")


@command(app, "list", example="penstock queue list --topic orders")
def list_(
    session: Session,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only of this topic.")] = None,
) -> None:
    """Show all queues and their settings."""
    queues = [queue for queue in session.run(calls.list_queues()) if topic in (None, queue.topic)]
    session.output.table(
        [fields(queue) for queue in queues],
        "name",
        "topic",
        "ordering",
        "max_delivery_attempts",
        "exclusive",
        "keep_alive_until",
        "created_at",
        empty="there are no queues yet",
    )


@command(app, example="penstock queue show billing")
def show(session: Session, queue: QueueName) -> None:
    """Show a queue's settings and what is where in it."""
    statistics = session.run(calls.queue_statistics(queue))
    session.output.record({**fields(_find(session, queue)), **fields(statistics)})


def _find(session: Session, name: str) -> QueueInfo:
    for queue in session.run(calls.list_queues()):
        if queue.name == name:
            return queue
    # It can only be deleted between two looks.
    raise UnknownQueue(f"queue {name!r} does not exist")


@command(app, example="penstock queue delete billing --yes")
def delete(session: Session, queue: QueueName, yes: Yes = False) -> None:
    """Delete a queue with its backlog and its dead letters; the topic stays."""
    session.confirm(f"Delete queue {queue} with its backlog and its dead letters?", yes=yes)
    session.act("delete queue", queue, calls.delete_queue(queue))
    session.output.done({"name": queue, "deleted": True}, f"queue {queue} is deleted")


@command(app, example="penstock queue purge billing --yes")
def purge(session: Session, queue: QueueName, yes: Yes = False) -> None:
    """Drop every message that waits in a queue; the queue stays."""
    session.confirm(f"Drop every message that waits in queue {queue}?", yes=yes)
    purged = session.act("purge", queue, calls.purge_queue(queue))
    session.output.done({"name": queue, "purged": purged}, f"dropped {purged} from queue {queue}")


@command(app, "keep-alive", example="penstock queue keep-alive session-17 10m")
def keep_alive(
    session: Session,
    queue: QueueName,
    lasting: Annotated[
        timedelta,
        typer.Argument(metavar="DURATION", parser=duration, help="How long it lives from now on."),
    ],
) -> None:
    """Keep an exclusive queue alive for longer."""
    until = session.run(calls.extend_keep_alive(queue, lasting))
    session.output.done(
        {"name": queue, "keep_alive_until": until}, f"queue {queue} lives until {until}"
    )


@command(app, example="penstock queue pause billing")
def pause(session: Session, queue: QueueName) -> None:
    """Let a queue give out nothing until it is resumed; what is claimed may still be finished."""
    since = session.act("pause", queue, calls.pause_queue(queue))
    session.output.done(
        {"name": queue, "paused_at": since}, f"queue {queue} is paused since {since}"
    )


@command(app, example="penstock queue resume billing")
def resume(session: Session, queue: QueueName) -> None:
    """Let a paused queue give out messages again."""
    was_paused = session.act("resume", queue, calls.resume_queue(queue))
    sentence = f"queue {queue} goes on" if was_paused else f"queue {queue} was not paused"
    session.output.done({"name": queue, "resumed": was_paused}, sentence)


@command(app, example="penstock queue stats billing shipping")
def stats(session: Session, queues: SomeQueues = None) -> None:
    """Count exactly what is waiting, blocked, delayed, retrying, claimed, done and dead.

    Exact counts cost as much as there is to count; queue watch is cheap however long the backlog.
    With --json also the sums pending_count (waiting, blocked, delayed, retrying), scheduled_count
    (delayed, retrying) and total_count (without the dead), and oldest_pending_at.
    """
    names = queues or [queue.name for queue in session.run(calls.list_queues())]
    rows = [_counted(name, session.run(calls.queue_statistics(name))) for name in names]
    session.output.table(
        rows,
        *("queue", *_COUNTS[:-1], "done", "dead", "oldest_waiting_at"),
        empty="there are no queues yet",
    )


def _counted(queue: str, statistics: QueueStatistics) -> Row:
    """The names that every command uses, beside the names that SQL has for them."""
    return {
        "queue": queue,
        "waiting": statistics.waiting_count,
        "blocked": statistics.blocked_count,
        "delayed": statistics.delayed_count,
        "retrying": statistics.retrying_count,
        "claimed": statistics.processing_count,
        "done": statistics.completed_count,
        "dead": statistics.dead_count,
        **fields(statistics),
    }


@command(app, example="penstock queue watch --every 5s")
def watch(
    session: Session,
    queues: SomeQueues = None,
    *,
    every: Annotated[
        timedelta | None, duration_option("--every", help="How often to look. Default: 2s.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="Look so often.", show_default="until Ctrl-C"),
    ] = None,
) -> None:
    """Watch the queues live, until Ctrl-C; in a pipe, a line for each queue and look.

    Numbers are counted up to 10,000; oldest is for how long a message has been due; in and out are
    messages a second since the look before; blocked by is the message that holds up the first
    blocked one.  With --json also its blocked_by_state, blocked_by_token and blocked_until.
    """
    looking = looks_at(session, queues or [], every or EVERY, count)
    try:
        if session.output.json or not session.output.people.is_terminal:
            _lines(session, looking)
        else:
            _live(session, looking)
    except KeyboardInterrupt:
        session.output.note("ended")


def looks_at(
    session: Session, queues: Sequence[str], every: timedelta, count: int | None
) -> Iterator[list[Row]]:
    """One look after the other: a row for each queue."""
    rates = Rates()
    done = 0
    while True:
        rates.note(session.run(looks.activity(rates.since)), time.monotonic())
        found = session.run(looks.queue_overview())
        _check_known(queues, {each.name for each in found})
        yield [_row(each, rates) for each in found if not queues or each.name in queues]
        done += 1
        if done == count:
            return
        time.sleep(every.total_seconds())


class Rates:
    """Messages a second between two looks."""

    def __init__(self) -> None:
        self.since: str | None = None
        self._at = 0.0
        self._per_second: dict[tuple[str, str], float] = {}

    def note(self, happened: list[Activity], now: float) -> None:
        span = now - self._at
        self._per_second = {
            (each.kind, each.name): (each.published or each.acked or 0) / span
            for each in happened
            if self.since is not None and span > 0
        }
        self._at = now
        self.since = happened[0].snapshot if happened else self.since

    def of(self, kind: str, name: str) -> float | None:
        found = self._per_second.get((kind, name))
        return None if found is None else round(found, 1)


def _check_known(asked: Sequence[str], known: set[str]) -> None:
    for name in asked:
        if name not in known:
            raise UnknownQueue(f"queue {name!r} does not exist")


def _row(queue: QueueNow, rates: Rates) -> Row:
    oldest = queue.oldest_seconds
    return {
        "queue": queue.name,
        **{state: getattr(queue, state) for state in _COUNTS},
        "scheduled": queue.scheduled,
        "oldest": None if oldest is None else timedelta(seconds=round(oldest)),
        "in_s": rates.of("topic", queue.topic),
        "out_s": rates.of("queue", queue.name),
        "paused": queue.paused_at is not None,
        "blocked_by": queue.blocked_by,
        "blocked_by_state": queue.blocked_by_state,
        "blocked_by_token": queue.blocked_by_token,
        "blocked_until": queue.blocked_until,
    }


def _lines(session: Session, looking: Iterator[list[Row]]) -> None:
    for rows in looking:
        at = time.strftime("%H:%M:%S")
        for row in rows:
            told = {**row, "blocked_by": _holder(row)}
            words = "  ".join(f"{name}={_short(told[name])}" for name in _WATCHED[1:])
            session.output.line(row, f"{at}  {row['queue']}  {words}")


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def _live(session: Session, looking: Iterator[list[Row]]) -> None:
    with Live(console=session.output.people, auto_refresh=False) as live:
        for rows in looking:
            shown = grid([_marked(row) for row in rows], _WATCHED)
            live.update(shown if rows else Text("there are no queues yet"), refresh=True)


def _marked(row: Row) -> Row:
    more = {name: "> 10,000" for name in _COUNTS if row[name] > COUNTED_TO}
    return {**row, **more, "paused": "yes" if row["paused"] else None, "blocked_by": _holder(row)}


def _holder(row: Row) -> str | None:
    """The message that holds up the first blocked one: "17, claimed until 12:00:00"."""
    if row["blocked_by"] is None:
        return None
    until = row["blocked_until"].astimezone().strftime("%H:%M:%S")
    return f"{row['blocked_by']}, {row['blocked_by_state']} until {until}"
