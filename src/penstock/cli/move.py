"""penstock message move: waiting messages or dead letters to another topic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from penstock.cli.arguments import QueueName
from penstock.cli.session import Session
from penstock.client import calls
from penstock.client.calls import Call, transfers
from penstock.errors import UnknownQueue
from penstock.models import QueueInfo

EXAMPLE = "penstock message move billing --dead --to billing-by-hand"
MOST = 1000


def move(
    session: Session,
    queue: QueueName,
    message_ids: Annotated[
        list[int] | None,
        typer.Argument(metavar="ID", help="With --dead: only these messages.", show_default=False),
    ] = None,
    *,
    to: Annotated[
        str,
        typer.Option("--to", metavar="NAME", help="The topic, or a queue that is its only one."),
    ],
    dead: Annotated[bool, typer.Option("--dead", help="Move dead letters.")] = False,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="At most so many.", show_default="all"),
    ] = None,
) -> None:
    """Move what waits in a queue, or its dead letters, to another topic, a thousand at a time.

    Each batch is published there and finished here in one transaction. Headers keep the first id
    (penstock-original-id) and the queue that was left (penstock-moved-from).
    """
    if message_ids and not dead:
        raise typer.BadParameter(
            "ids go with --dead; what waits is moved in its order: use --count", param_hint="ID"
        )
    queues = session.run(calls.list_queues())
    topic = _topic(session, queues, to)
    asked = _dead(queue, topic, message_ids or [], count) if dead else _waiting(queue, topic, count)
    moved = _move_all(session, queue, asked, topic, count)
    session.output.done(
        {"queue": queue, "topic": topic, "moved": moved}, f"moved {moved} to topic {topic}"
    )
    if not moved and not dead and any(each.name == queue and each.paused_at for each in queues):
        session.output.note(f"queue {queue} is paused and gives out nothing: resume it first")


def _move_all(
    session: Session, queue: str, calls_: Iterator[Call[int]], topic: str, total: int | None
) -> int:
    moved = 0
    with session.output.progress() as progress:
        task = progress.add_task(f"moving to {topic}", total=total)
        for call in calls_:
            went = session.act("move", queue, call, to=topic)
            moved += went
            progress.advance(task, went)
            if not went or moved == total:
                break
    return moved


def _waiting(queue: str, topic: str, count: int | None) -> Iterator[Call[int]]:
    for most in _portions(count):
        yield transfers.move_messages(queue, topic, most=most)


def _dead(queue: str, topic: str, ids: list[int], count: int | None) -> Iterator[Call[int]]:
    if not ids:
        for most in _portions(count):
            yield transfers.move_dead_letters(queue, topic, most=most)
    wanted = sorted(set(ids))[:count]
    for place in range(0, len(wanted), MOST):
        yield transfers.move_dead_letters(queue, topic, wanted[place : place + MOST], most=MOST)


def _portions(count: int | None) -> Iterator[int]:
    """A thousand at a time: for ever, or until so many were asked for."""
    while count is None or count > 0:
        yield MOST if count is None else min(MOST, count)
        count = None if count is None else count - MOST


def _topic(session: Session, queues: list[QueueInfo], name: str) -> str:
    """The topic that is meant: publishing to it must reach what the person named, and no more."""
    if any(topic.name == name for topic in session.run(calls.list_topics())):
        return name
    topic = next((queue.topic for queue in queues if queue.name == name), None)
    if topic is None:
        raise UnknownQueue(f"there is neither a topic nor a queue named {name!r}")
    if sum(queue.topic == topic for queue in queues) > 1:
        raise typer.BadParameter(
            f"queue {name} shares topic {topic} with others, which would get the messages too; "
            f"if that is wanted, write --to {topic}",
            param_hint="--to",
        )
    return topic
