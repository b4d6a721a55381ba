"""penstock message: publish, look at, and consume messages by hand."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer

from penstock.cli import message_export, message_import, message_publish
from penstock.cli.arguments import (
    MessageNumber,
    MessageNumbers,
    QueueName,
    Token,
    duration,
    duration_option,
)
from penstock.cli.output import error, fields
from penstock.cli.session import Session, command
from penstock.cli.topic import Count, follow
from penstock.client import calls
from penstock.client.calls import Call, looks, transfers
from penstock.client.facts import Inspected, blocker
from penstock.errors import PermissionDenied, UnknownQueue
from penstock.models import ClaimedMessage, MessageState, QueueInfo

LOST = UNKNOWN = 1
LEASE = timedelta(seconds=30)
POLL = 0.2
MOVED_AT_ONCE = 1000

app = typer.Typer(
    name="message",
    help="Publish, look at, and consume messages by hand.",
    epilog="Example: penstock message publish orders '{\"order\": 7}'",
    no_args_is_help=True,
)

command(app, example=message_publish.EXAMPLE)(message_publish.publish)


@command(app, example="penstock message consume billing --count 10 --ack")
def consume(
    session: Session,
    queue: QueueName,
    *,
    count: Annotated[int, typer.Option("--count", "-n", help="At most so many.")] = 1,
    lease: Annotated[
        timedelta | None,
        duration_option("--lease", "-l", help="How long the claim lasts. Default: 30s."),
    ] = None,
    wait: Annotated[
        timedelta | None, duration_option("--wait", help="Wait so long for a message.")
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="They are done once they are shown.")] = False,
    token: Annotated[
        str | None,
        typer.Option("--token", "-t", help="Claim under this token. Default: a new one."),
    ] = None,
) -> None:
    """Claim messages and show them; with --json, a line each.

    Without --ack they come back when the lease ends; until then ack, nack or release them.
    """
    token = token or f"cli-{secrets.token_hex(4)}"
    lease = LEASE if lease is None else lease
    messages = _wait_for(
        session, calls.consume_batch(queue, token, lease, count), wait or timedelta()
    )
    _show(session, messages, queue, token)
    if not messages:
        return
    if ack:
        ids = [message.id for message in messages]
        held = session.run(calls.ack_many(queue, ids, token))
        session.output.note(f"acked {len(held)}")
        _check_held(ids, held)
    else:
        session.output.note(f"claimed for {lease} with --token {token}")


def _wait_for(
    session: Session, call: Call[list[ClaimedMessage]], wait: timedelta
) -> list[ClaimedMessage]:
    end = time.monotonic() + wait.total_seconds()
    while not (messages := session.run(call)) and time.monotonic() < end:
        time.sleep(POLL)
    return messages


def _show(session: Session, messages: list[ClaimedMessage], queue: str, token: str) -> None:
    if session.output.json:
        for message in messages:
            session.output.line({**fields(message), "queue": queue, "token": token}, "")
        return
    session.output.table(
        [fields(message) for message in messages],
        *("id", "key", "priority", "attempt", "published_at", "payload"),
        empty=f"queue {queue} has nothing to deliver now",
    )


@command(app, example="penstock message ack billing 17 18 --token cli-5f0c2b7e")
def ack(session: Session, queue: QueueName, message_ids: MessageNumbers, token: Token) -> None:
    """Say that claimed messages are done."""
    held = session.run(calls.ack_many(queue, message_ids, token))
    _tell(session, "acked", message_ids, held)


@command(
    app, example="penstock message nack billing 17 --token cli-5f0c2b7e --error 'card refused'"
)
def nack(
    session: Session,
    queue: QueueName,
    message_ids: MessageNumbers,
    token: Token,
    *,
    delay: Annotated[
        timedelta | None,
        duration_option("--delay", help="Retry after this, not after the backoff."),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--error", help="What went wrong, for the history.")
    ] = None,
) -> None:
    """Say that claimed messages failed: they are retried, or dead after their last attempt."""
    held = session.run(calls.nack_many(queue, message_ids, token, delay=delay, error=reason))
    _tell(session, "nacked", message_ids, list(held))


@command(app, example="penstock message release billing 17 --token cli-5f0c2b7e")
def release(session: Session, queue: QueueName, message_ids: MessageNumbers, token: Token) -> None:
    """Give claimed messages back at once; the attempt is not counted."""
    held = session.run(calls.release_many(queue, message_ids, token))
    _tell(session, "released", message_ids, held)


def _tell(session: Session, verb: str, asked: Sequence[int], held: Sequence[int]) -> None:
    session.output.done({verb: list(held)}, f"{verb} {len(held)} of {len(set(asked))}")
    _check_held(asked, held)


def _check_held(asked: Sequence[int], held: Sequence[int]) -> None:
    """Fail if a message was not changed: another token holds it by now, or no token does."""
    lost = sorted(set(asked) - set(held))
    if not lost:
        return
    error(
        f"this token does not hold message {', '.join(map(str, lost))}",
        "its lease may have ended: consume again",
    )
    raise typer.Exit(LOST)


@command(app, example="penstock message extend billing 17 5m --token cli-5f0c2b7e")
def extend(
    session: Session,
    queue: QueueName,
    message_id: MessageNumber,
    extension: Annotated[
        timedelta,
        typer.Argument(metavar="DURATION", parser=duration, help="How much longer."),
    ],
    token: Token,
) -> None:
    """Keep a claimed message for longer."""
    until = session.run(calls.extend(queue, message_id, token, extension))
    _check_held([message_id], [] if until is None else [message_id])
    session.output.done(
        {"message_id": message_id, "claimed_until": until},
        f"message {message_id} is claimed until {until}",
    )


@command(app, "peek", example="penstock message peek billing --limit 5")
@command(app, example="penstock message browse billing --limit 20 --json")
def browse(
    session: Session,
    queue: QueueName,
    after: Annotated[int, typer.Option(metavar="ID", help="Begin after this message.")] = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 20,
) -> None:
    """Look at a queue's messages without claiming them; with --json, a line each."""
    messages = session.run(calls.browse(queue, after=after, page_size=limit))
    if session.output.json:
        for message in messages:
            session.output.line(fields(message), "")
        return
    session.output.table(
        [fields(message) for message in messages],
        *("id", "state", "key", "priority", "attempt", "visible_at", "blocked_by", "blocked_until"),
        *("published_at", "payload"),
        empty=f"queue {queue} has no messages",
    )
    if messages and len(messages) == limit:
        session.output.note(f"there may be more: --after {messages[-1].id}")


@command(app, example="penstock message state billing 17")
def state(session: Session, queue: QueueName, message_id: MessageNumber) -> None:
    """Tell where a message is in a queue.

    It is waiting, blocked, delayed, retrying, claimed, done or dead; of a blocked one you see what
    holds it up, and until when.
    """
    found = session.run(calls.message_state(queue, message_id))
    if found is None:
        error(f"queue {queue} knows no message {message_id}")
        raise typer.Exit(UNKNOWN)
    facts = {"message_id": message_id, "queue": queue, "state": found}
    blocked = _blocked(session, queue, message_id) if found is MessageState.BLOCKED else None
    if blocked is None:
        session.output.done(facts, found.value)
        return
    facts |= {name: value for name, value in fields(blocked).items() if name.startswith("blocked_")}
    sentence = f"{found.value} until {blocked.blocked_until} behind {blocker(blocked)}"
    session.output.done(facts, sentence)


def _blocked(session: Session, queue: str, message_id: int) -> Inspected | None:
    """What blocks a message; None if it is no longer blocked, or this login may not read it."""
    try:
        found = session.run(looks.inspect_message(queue, message_id, 1))
    except PermissionDenied:
        return None
    return found if found is not None and found.blocked_by is not None else None


@command(app, example="penstock message show billing 17")
def show(session: Session, queue: QueueName, message_id: MessageNumber) -> None:
    """Show one message whole: payload, headers, attempts with their errors, and its state.

    Its state is told for every queue of the topic.
    """
    found = session.run(looks.inspect_message(queue, message_id))
    if found is None:
        error(f"queue {queue} knows no message {message_id}", "it may be gone: history ends")
        raise typer.Exit(UNKNOWN)
    facts = fields(found) | {"payload": _whole_payload(found)}
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


def _whole_payload(found: Inspected) -> Any:
    return json.loads(found.payload) if len(found.payload) < looks.WHOLE else found.payload


def _states(session: Session, queue: str, message_id: int) -> dict[str, Any]:
    queues = session.run(calls.list_queues())
    topic = next(each.topic for each in queues if each.name == queue)
    return {
        each.name: session.run(calls.message_state(each.name, message_id))
        for each in queues
        if each.topic == topic
    }


@command(app, example="penstock message tail billing --json")
def tail(session: Session, queue: QueueName, count: Count = None) -> None:
    """Follow what comes into a queue from now on, without claiming it; a line for each message."""
    follow(session, queue, count)


@command(app, example="penstock message move billing --dead --to billing-by-hand")
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
    for place in range(0, len(wanted), MOVED_AT_ONCE):
        yield transfers.move_dead_letters(
            queue, topic, wanted[place : place + MOVED_AT_ONCE], most=MOVED_AT_ONCE
        )


def _portions(count: int | None) -> Iterator[int]:
    """A thousand at a time: for ever, or until so many were asked for."""
    while count is None or count > 0:
        yield MOVED_AT_ONCE if count is None else min(MOVED_AT_ONCE, count)
        count = None if count is None else count - MOVED_AT_ONCE


def _topic(session: Session, queues: list[QueueInfo], name: str) -> str:
    """The topic of that name, or of the queue of that name if no other queue reads it."""
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


command(app, example=message_export.EXAMPLE)(message_export.export)
command(app, "import", example=message_import.EXAMPLE)(message_import.import_)
