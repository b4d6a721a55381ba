"""penstock queue: the subscriptions that messages are consumed from."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from penstock.cli import queue_watch
from penstock.cli.arguments import QueueName, Yes, duration_option
from penstock.cli.command import command
from penstock.cli.output import fields
from penstock.cli.session import Session
from penstock.cli.values import duration, json_object
from penstock.client import calls
from penstock.errors import UnknownQueue
from penstock.models import Notify, Ordering, QueueInfo

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


command(app, example=queue_watch.STATS_EXAMPLE)(queue_watch.stats)
command(app, example=queue_watch.WATCH_EXAMPLE)(queue_watch.watch)
