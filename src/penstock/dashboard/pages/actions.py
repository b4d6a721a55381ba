"""What an operator can do to queues: each action is confirmed first, and recorded in the audit.

The confirmation is a page of its own, which the browser shows as a dialog where it can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse

from penstock.client import calls as engine
from penstock.client.calls import audit
from penstock.dashboard.page_context import dashboard_of, parameter, render, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.client.calls import Call
    from penstock.client.facts import AuditEntry

_MOST_IDS = 1000


@dataclass(frozen=True, slots=True)
class Notice:
    """What the page after an action says."""

    entry: AuditEntry
    words: str
    note: str
    """How many it was done to."""
    undo: str = ""
    """What the button says that takes it back; empty when nothing does."""
    undo_link: str = ""


def actor(request: Request) -> str:
    address = request.client.host if request.client else "unknown"
    return f"{session(request).role} at {address}"


async def just_done(request: Request) -> AuditEntry | None:
    """The action that the address names, read from the audit: the address alone proves nothing."""
    number = parameter(request, "did")
    if not (number.isascii() and number.isdigit() and len(number) < 19):  # noqa: PLR2004 - bigint
        return None
    found = await dashboard_of(request).database.look(audit.list_actions(int(number) + 1, 1))
    return found[0] if found and found[0].id == int(number) else None


def error(request: Request, status: int, message: str, hint: str = "") -> Response:
    return render(request, "error.html", code=status, message=message, hint=hint)


def unknown(request: Request) -> Response:
    return error(request, 400, "There is no such action.")


def forbidden(request: Request) -> Response:
    hint = "Log in with the operator's token for that."
    return error(request, 403, "You may look, but not act.", hint)


def unconfirmed(request: Request) -> Response:
    return error(request, 400, "It was not confirmed, so nothing was done.")


@dataclass(frozen=True, slots=True)
class Action:
    """A kind of action."""

    name: str
    button: str
    question: str
    consequence: str
    call: Callable[[str, list[int] | None], Call[Any]]
    takes_ids: bool = False
    is_final: bool = False
    """It can't be undone, so a box must be ticked as well."""
    undo: str | None = None
    """The action that takes it back."""


ACTIONS = {
    each.name: each
    for each in (
        Action(
            "pause",
            "Pause",
            "Pause this queue?",
            "Workers get no more of its messages. What is claimed can be finished, publishing "
            "goes on.",
            lambda queue, _ids: engine.pause_queue(queue),
            undo="resume",
        ),
        Action(
            "resume",
            "Resume",
            "Resume this queue?",
            "Workers get its messages again, those that wait are woken.",
            lambda queue, _ids: engine.resume_queue(queue),
            undo="pause",
        ),
        Action(
            "requeue",
            "Requeue",
            "Put dead letters back into the queue?",
            "They are tried again with their attempts counted anew. What fails again comes back "
            "here.",
            engine.requeue_dead_letters,
            takes_ids=True,
        ),
        Action(
            "delete",
            "Delete",
            "Delete dead letters?",
            "They are gone for good, with their payloads and their history.",
            engine.purge_dead_letters,
            takes_ids=True,
            is_final=True,
        ),
        Action(
            "purge",
            "Purge",
            "Drop every message of this queue?",
            "Pending and claimed messages are dropped for good. Dead letters and "
            "history stay, and so do other queues of the topic.",
            lambda queue, _ids: engine.purge_queue(queue),
            is_final=True,
        ),
    )
}


async def confirm(request: Request) -> Response:
    """Ask before it is done."""
    action = ACTIONS.get(parameter(request, "action"))
    ids = _ids(request.query_params.getlist("id"))
    if action is None or ids is None:
        return unknown(request)
    if not session(request).may_act:
        return forbidden(request)
    if "selected" in request.query_params and not ids:
        return error(request, 400, "No message is ticked.", "Tick some, then choose again.")
    return render(
        request,
        "confirm.html",
        action=action,
        queue=parameter(request, "queue"),
        ids=ids,
        back=_back(parameter(request, "queue"), ids),
    )


async def act(request: Request) -> Response:
    """Do it and record it, in one transaction."""
    form: dict[str, list[str]] = request.state.form
    action = ACTIONS.get(form.get("action", [""])[0])
    queue, ids = form.get("queue", [""])[0], _ids(form.get("id", []))
    if action is None or ids is None:
        return unknown(request)
    if not session(request).may_act:
        return forbidden(request)
    if form.get("sure", [""])[0] != "yes":
        return unconfirmed(request)
    dashboard = dashboard_of(request)
    some = ids if action.takes_ids and ids else None
    detail: dict[str, Any] | None = {"ids": some[:20], "count": len(some)} if some else None
    entry = audit.record_action(actor(request), action.name, queue, detail)
    *_, number = await dashboard.database.act(action.call(queue, some), entry)
    dashboard.poller.hurry()
    return RedirectResponse(f"{_back(queue, ids, done=action.name)}&did={number}", 303)


async def deed_done(request: Request) -> Notice | None:
    """The notice about what was just done to a queue."""
    entry = await just_done(request)
    if entry is None or entry.action not in ACTIONS:
        return None
    undo, count = ACTIONS[entry.action].undo, (entry.detail or {}).get("count")
    told = Notice(entry, _DONE[entry.action], f"{count} chosen" if count else "")
    if undo is None:
        return told
    link = f"/confirm?{urlencode({'action': undo, 'queue': entry.target})}"
    return replace(told, undo=ACTIONS[undo].button.lower(), undo_link=link)


_DONE = {
    "pause": "Paused",
    "resume": "Resumed",
    "requeue": "Put dead letters back into",
    "delete": "Deleted dead letters of",
    "purge": "Purged",
}


def _ids(words: list[str]) -> list[int] | None:
    """The ids of a form; None when something else is among them."""
    if len(words) > _MOST_IDS:
        return None
    good = all(word.isascii() and word.isdigit() and len(word) < 19 for word in words)  # noqa: PLR2004
    return [int(word) for word in words] if good else None


def _back(queue: str, ids: list[int], done: str = "") -> str:
    if len(ids) == 1 and done != "delete":
        return f"/message?{urlencode({'queue': queue, 'id': ids[0]})}"
    state = {"state": "dead"} if ids or done in ("requeue", "delete") else {}
    return f"/queue?{urlencode({'name': queue, **state})}"
