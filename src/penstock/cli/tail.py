"""penstock message tail and topic tail: see messages as they come, and take them from nobody."""

from __future__ import annotations

from contextlib import closing
from itertools import islice
from typing import Annotated

import typer

from penstock import sync
from penstock.cli.arguments import QueueName, TopicName
from penstock.cli.output import compact, fields
from penstock.cli.session import Session
from penstock.client import calls
from penstock.models import ClaimedMessage

MESSAGE_EXAMPLE = "penstock message tail billing --json"
TOPIC_EXAMPLE = "penstock topic tail orders --count 10"

Count = Annotated[
    int | None,
    typer.Option("--count", "-n", min=1, help="End after so many.", show_default="until Ctrl-C"),
]


def tail_queue(session: Session, queue: QueueName, count: Count = None) -> None:
    """Follow what comes into a queue from now on, without claiming it; a line for each message."""
    _follow(session, queue, count)


def tail_topic(session: Session, topic: TopicName, count: Count = None) -> None:
    """Follow what is published to a topic from now on; a line for each message."""
    _follow(session, topic, count)


def _follow(session: Session, name: str, count: int | None) -> None:
    # The engine first: a database without one is told apart from one without the name.
    session.run(calls.schema_version())
    with sync.connect(session.dsn) as mq, closing(mq.tail(name)) as messages:
        session.output.note(f"following {name}; Ctrl-C ends it")
        try:
            for message in islice(messages, count):
                session.output.line(_facts(message), _sentence(message))
        except KeyboardInterrupt:
            session.output.note("ended")


def _facts(message: ClaimedMessage) -> dict[str, object]:
    """Without what belongs to the queue that it was seen through."""
    own = {"attempt", "vt", "claimed_until", "visible_at"}
    return {name: value for name, value in fields(message).items() if name not in own}


def _sentence(message: ClaimedMessage) -> str:
    at = message.published_at.astimezone().strftime("%H:%M:%S")
    return f"{at}  {message.id}  {message.key or '-'}  {compact(message.payload)}"
