"""penstock message show: one message whole."""

from __future__ import annotations

import json
from typing import Any

import typer

from penstock.cli.arguments import MessageNumber, QueueName
from penstock.cli.output import error, fields
from penstock.cli.session import Session
from penstock.client import calls
from penstock.client.calls import looks
from penstock.client.facts import Inspected

EXAMPLE = "penstock message show billing 17"
UNKNOWN = 1


def show(session: Session, queue: QueueName, message_id: MessageNumber) -> None:
    """Show one message whole: payload, headers, attempts with their errors, and its state.

    Its state is told for every queue of the topic.
    """
    found = session.run(looks.inspect_message(queue, message_id))
    if found is None:
        error(f"queue {queue} knows no message {message_id}", "it may be gone: history ends")
        raise typer.Exit(UNKNOWN)
    facts = fields(found) | {"payload": _payload(found)}
    # As everywhere else at the command line.
    facts = {"error" if name == "last_error" else name: value for name, value in facts.items()}
    session.output.record(
        {
            "message_id": message_id,
            "queue": queue,
            **facts,
            "states": _states(session, queue, message_id),
        }
    )


def _payload(found: Inspected) -> Any:
    return json.loads(found.payload) if len(found.payload) < looks.WHOLE else found.payload


def _states(session: Session, queue: str, message_id: int) -> dict[str, Any]:
    queues = session.run(calls.list_queues())
    topic = next(each.topic for each in queues if each.name == queue)
    return {
        each.name: session.run(calls.message_state(each.name, message_id))
        for each in queues
        if each.topic == topic
    }
