"""penstock topic: the logs that messages are published to."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from penstock.cli import tail
from penstock.cli.arguments import TopicName, Yes, duration_option
from penstock.cli.output import fields
from penstock.cli.session import Session, command
from penstock.client import calls

app = typer.Typer(
    name="topic",
    help="The logs that messages are published to.",
    epilog="Example: penstock topic list",
    no_args_is_help=True,
)


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


command(app, "tail", example=tail.TOPIC_EXAMPLE)(tail.tail_topic)
