"""penstock topic: the logs that messages are published to, and how messages are followed."""

from __future__ import annotations

import logging
from contextlib import closing
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Annotated

import typer

from penstock import sync
from penstock.cli.arguments import TopicName, Yes, duration_option
from penstock.cli.output import compact, fields
from penstock.cli.session import Session, command
from penstock.client import calls
from penstock.models import ClaimedMessage
from penstock.observe import Event, Name, subscribe

app = typer.Typer(
    name="topic",
    help="The logs that messages are published to.",
    epilog="Example: penstock topic list",
    no_args_is_help=True,
)

Count = Annotated[
    int | None,
    typer.Option("--count", "-n", min=1, help="End after so many.", show_default="until Ctrl-C"),
]


@command(app, example="penstock topic create orders")
def create(
    session: Session,
    topic: TopicName,
    retention: Annotated[
        timedelta | None,
        duration_option("--retention", help="Keep messages that every queue has read so long."),
    ] = None,
) -> None:
    """Create a topic; one that exists already is left as it is."""
    number = session.run(calls.create_topic(topic, retention=retention))
    session.output.done({"id": number, "name": topic}, f"topic {topic} is ready")


@command(app, "list", example="penstock topic list --json")
def list_(session: Session) -> None:
    """Show all topics."""
    topics = [fields(topic) for topic in session.run(calls.list_topics())]
    session.output.table(
        topics, "name", "queue_count", "retention", "created_at", empty="there are no topics yet"
    )


@command(app, example="penstock topic delete orders --yes")
def delete(session: Session, topic: TopicName, yes: Yes = False) -> None:
    """Delete a topic with its queues and all its messages."""
    session.confirm(f"Delete topic {topic}, its queues and all its messages?", yes=yes)
    session.run(calls.delete_topic(topic))
    session.output.done({"name": topic, "deleted": True}, f"topic {topic} is deleted")


@command(app, example="penstock topic tail orders --count 10")
def tail(session: Session, topic: TopicName, count: Count = None) -> None:
    """Follow what is published to a topic from now on; a line for each message."""
    follow(session, topic, count)


def follow(session: Session, name: str, count: int | None) -> None:
    """Show the messages of a topic or a queue as they come; consumers still get them."""
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
