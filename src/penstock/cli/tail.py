"""penstock message tail and topic tail: show messages as they come; consumers still get them."""

from __future__ import annotations

import logging
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Annotated

import typer

from penstock import sync
from penstock.cli.arguments import QueueName, TopicName
from penstock.cli.output import compact, fields
from penstock.cli.session import Session
from penstock.client import calls
from penstock.models import ClaimedMessage
from penstock.observe import Event, Name, subscribe

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
    # The engine first: a missing engine is another error than a missing name.
    session.run(calls.schema_version())
    # What the connection pool logs is shown below, once and in a sentence.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    telling = subscribe(partial(_tell, session))
    with telling, sync.connect(session.dsn) as mq, closing(mq.tail(name)) as messages:
        try:
            session.output.note(f"following {name}; Ctrl-C ends it")
            for message in islice(messages, count):
                session.output.line(_facts(message), _sentence(message))
        except KeyboardInterrupt:
            session.output.note("ended")


def _tell(session: Session, event: Event) -> None:
    if event.name is Name.CALL_RETRIED and event.attempt == 1:
        session.output.note("the connection to the database is lost; trying again")


def _facts(message: ClaimedMessage) -> dict[str, object]:
    """Without what belongs to the queue that it was seen through."""
    own = {"attempt", "vt", "claimed_until", "visible_at"}
    return {name: value for name, value in fields(message).items() if name not in own}


def _sentence(message: ClaimedMessage) -> str:
    at = message.published_at.astimezone().strftime("%H:%M:%S")
    return f"{at}  {message.id}  {message.key or '-'}  {compact(message.payload)}"
