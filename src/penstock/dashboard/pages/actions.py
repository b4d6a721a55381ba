"""What an operator can do: each deed is confirmed first, and remembered with it or not done.

The confirmation is a page of its own, which the browser shows as a dialog where it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse

from penstock.client import calls as engine
from penstock.client.calls import audit
from penstock.dashboard.desk import asked, desk, session
from penstock.dashboard.desk import page as whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.client.calls import Call
    from penstock.client.facts import Deed

_MOST_IDS = 1000


@dataclass(frozen=True, slots=True)
class Action:
    """A kind of deed."""

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
            "Waiting, scheduled and claimed messages are dropped for good. Dead letters and "
            "history stay, and so do other queues of the topic.",
            lambda queue, _ids: engine.purge_queue(queue),
            is_final=True,
        ),
    )
}


async def confirm(request: Request) -> Response:
    """Ask before it is done."""
    action = ACTIONS.get(asked(request, "action"))
    ids = _ids(request.query_params.getlist("id"))
    if action is None or ids is None or not session(request).may_act:
        return _refused(request, action is None or ids is None)
    if "selected" in request.query_params and not ids:
        return _error(request, 400, "No message is ticked.", "Tick some, then choose again.")
    return whole(
        request,
        "confirm.html",
        action=action,
        queue=asked(request, "queue"),
        ids=ids,
        back=_back(asked(request, "queue"), ids),
    )


async def act(request: Request) -> Response:
    """Do it and remember it, in one transaction."""
    form: dict[str, list[str]] = request.state.form
    action = ACTIONS.get(form.get("action", [""])[0])
    queue, ids = form.get("queue", [""])[0], _ids(form.get("id", []))
    if action is None or ids is None or not session(request).may_act:
        return _refused(request, action is None or ids is None)
    if form.get("sure", [""])[0] != "yes":
        return _error(request, 400, "It was not confirmed, so nothing was done.", "")
    at = desk(request)
    some = ids if action.takes_ids and ids else None
    detail: dict[str, Any] | None = {"ids": some[:20], "count": len(some)} if some else None
    deed = audit.record_action(_actor(request), action.name, queue, detail)
    *_, number = await at.database.act(action.call(queue, some), deed)
    at.watch.hurry()
    return RedirectResponse(f"{_back(queue, ids, done=action.name)}&did={number}", 303)


async def deed_done(request: Request) -> dict[str, Any] | None:
    """What was just done, told from the audit and not from the address."""
    number = asked(request, "did")
    if not (number.isascii() and number.isdigit() and len(number) < 19):  # noqa: PLR2004 - bigint
        return None
    found = await desk(request).database.look(audit.list_actions(int(number) + 1, 1))
    if not found or found[0].id != int(number):
        return None
    return {"deed": found[0], "words": sentence(found[0]), "undo": _undo(found[0])}


def sentence(deed: Deed) -> str:
    done = {
        "pause": "Paused",
        "resume": "Resumed",
        "requeue": "Put dead letters back into",
        "delete": "Deleted dead letters of",
        "purge": "Purged",
    }
    return done.get(deed.action, deed.action)


def _undo(deed: Deed) -> Action | None:
    action = ACTIONS.get(deed.action)
    return ACTIONS[action.undo] if action and action.undo else None


def _ids(words: list[str]) -> list[int] | None:
    """The ids of a form; None when something else is among them."""
    if len(words) > _MOST_IDS:
        return None
    good = all(word.isascii() and word.isdigit() and len(word) < 19 for word in words)  # noqa: PLR2004
    return [int(word) for word in words] if good else None


def _actor(request: Request) -> str:
    address = request.client.host if request.client else "unknown"
    return f"{session(request).role} at {address}"


def _back(queue: str, ids: list[int], done: str = "") -> str:
    if len(ids) == 1 and done != "delete":
        return f"/message?{urlencode({'queue': queue, 'id': ids[0]})}"
    state = {"state": "dead"} if ids or done in ("requeue", "delete") else {}
    return f"/queue?{urlencode({'name': queue, **state})}"


def _refused(request: Request, is_unknown: bool) -> Response:  # noqa: FBT001
    if is_unknown:
        return _error(request, 400, "There is no such action.", "")
    return _error(
        request, 403, "You may look, but not act.", "Log in with the operator's token for that."
    )


def _error(request: Request, status: int, message: str, hint: str) -> Response:
    return whole(request, "error.html", code=status, message=message, hint=hint)
