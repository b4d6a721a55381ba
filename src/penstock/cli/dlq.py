"""penstock dlq: the dead letters, messages that used up their attempts."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import MessageNumber, QueueName, Yes
from penstock.cli.output import fields
from penstock.cli.session import Session, command
from penstock.client import calls
from penstock.errors import UnknownDeadLetter

# The audit takes a short text, and has the number of them anyway.
NOTED = 20

app = typer.Typer(
    name="dlq",
    help="The dead letters: messages that used up their attempts.",
    epilog="Example: penstock dlq list",
    no_args_is_help=True,
)

AnyQueue = Annotated[
    str | None, typer.Argument(metavar="QUEUE", help="Only of this queue.", show_default=False)
]
SomeNumbers = Annotated[
    list[int] | None,
    typer.Argument(metavar="ID", help="Only these messages.", show_default=False),
]


@command(app, "list", example="penstock dlq list billing")
def list_(session: Session, queue: AnyQueue = None) -> None:
    """Show the dead letters, of one queue or of all."""
    letters = [fields(letter) for letter in session.run(calls.list_dead_letters(queue))]
    session.output.table(
        letters,
        "message_id",
        "queue",
        "key",
        "attempts",
        "error",
        "died_at",
        empty="there are no dead letters",
    )


@command(app, example="penstock dlq show billing 17")
def show(session: Session, queue: QueueName, message_id: MessageNumber) -> None:
    """Show one dead letter whole: payload, last error, and the history of its attempts."""
    letter = session.run(calls.dead_letter(queue, message_id))
    if letter is None:
        raise UnknownDeadLetter(f"queue {queue} has no dead letter with message id {message_id}")
    history = session.run(calls.dead_letter_history(queue, message_id))
    session.output.record({**fields(letter), "history": history})


@command(app, example="penstock dlq requeue billing 17 18")
def requeue(session: Session, queue: QueueName, message_ids: SomeNumbers = None) -> None:
    """Give dead letters another life in their queue: all, or the named ones."""
    count = session.act(
        "requeue",
        queue,
        calls.requeue_dead_letters(queue, message_ids or None),
        message_ids=(message_ids or [])[:NOTED],
    )
    session.output.done({"queue": queue, "requeued": count}, f"put {count} back into queue {queue}")


@command(app, example="penstock dlq purge billing --yes")
def purge(
    session: Session, queue: AnyQueue = None, message_ids: SomeNumbers = None, yes: Yes = False
) -> None:
    """Drop dead letters for good: those of a queue, the named ones, or all there are."""
    what = _purged(queue, message_ids)
    session.confirm(f"Drop {what} for good?", yes=yes)
    count = session.act(
        "purge dead letters",
        queue,
        calls.purge_dead_letters(queue, message_ids or None),
        message_ids=(message_ids or [])[:NOTED],
    )
    session.output.done({"queue": queue, "purged": count}, f"dropped {count} dead letters")


def _purged(queue: str | None, message_ids: list[int] | None) -> str:
    if queue is None:
        return "the dead letters of all queues"
    if not message_ids:
        return f"all dead letters of queue {queue}"
    return f"{len(message_ids)} dead letters of queue {queue}"
