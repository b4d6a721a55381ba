"""What an operator can do to tasks: asked about first, and remembered as deeds on queues are.

Tasks may lie in another database than the audit, so one transaction can't hold both: the entry is
tried first, and commits right after the deed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse

from penstock.client.calls import audit
from penstock.dashboard import deeds, shelves
from penstock.dashboard.deeds import Told
from penstock.dashboard.desk import asked, desk, session
from penstock.dashboard.desk import page as whole
from penstock.tasks.errors import TaskNotFound
from penstock.tasks.task import LONGEST_ID, TaskId

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.dashboard.shelves import Shelf
    from penstock.tasks.store import TaskStore

_MOST_IDS = 200
_NOTED_BYTES = 600  # an entry of the audit is short
_REASON = "cancelled by an operator"


@dataclass(frozen=True, slots=True)
class Action:
    """A kind of deed, to tasks that were chosen or to all that are dead."""

    name: str
    button: str
    question: str
    consequence: str
    done: str
    to_one: Callable[[TaskStore, TaskId], Awaitable[bool]] | None = None
    """What happens to each that was chosen; None: it is done to all dead letters."""
    undo: str | None = None
    is_final: bool = False


ACTIONS = {
    each.name: each
    for each in (
        Action(
            "retry",
            "Retry",
            "Queue these tasks now?",
            "Dead, expired and waiting ones are tried at once, with their attempts at zero. Those "
            "that a worker has, or that are done, stay as they are.",
            "Queued again in",
            lambda store, task_id: store.retry(task_id),
        ),
        Action(
            "cancel",
            "Cancel tasks",
            "Cancel these tasks?",
            "They become dead without a dead letter, and a worker that has one loses its lease. "
            "Those that are done, dead or expired stay as they are.",
            "Cancelled in",
            lambda store, task_id: store.cancel(task_id, _REASON),
            undo="retry",
        ),
        Action(
            "replay",
            "Replay",
            "Put all dead letters back among the tasks?",
            "They are tried again with their attempts counted anew. What fails again comes back "
            "here.",
            "Put dead letters back in",
        ),
    )
}


async def confirm(request: Request) -> Response:
    """Ask before it is done."""
    action = ACTIONS.get(asked(request, "action"))
    shelf = shelves.chosen(desk(request).options, asked(request, "shelf"))
    ids = _ids(request.query_params.getlist("id"))
    if action is None or shelf is None or ids is None:
        return deeds.unknown(request)
    if not session(request).may_act:
        return deeds.forbidden(request)
    if action.to_one is not None and not ids:
        return deeds.error(request, 400, "No task is ticked.", "Tick some, then choose again.")
    return whole(
        request,
        "confirm_tasks.html",
        action=action,
        shelf=shelf,
        ids=ids,
        back=_back(shelf, ids),
    )


async def act(request: Request) -> Response:
    """Do it and remember it."""
    form: dict[str, list[str]] = request.state.form
    at = desk(request)
    action = ACTIONS.get(form.get("action", [""])[0])
    shelf = shelves.chosen(at.options, form.get("shelf", [""])[0])
    ids = _ids(form.get("id", []))
    if action is None or shelf is None or ids is None or (action.to_one is not None and not ids):
        return deeds.unknown(request)
    if not session(request).may_act:
        return deeds.forbidden(request)
    if form.get("sure", [""])[0] != "yes":
        return deeds.unconfirmed(request)

    def deed(done: int | None) -> Any:
        detail = {"ids": _noted(ids), "count": len(ids), "shelf": shelf.number, "done": done}
        return audit.record_action(deeds.actor(request), f"task {action.name}", shelf.name, detail)

    number = await at.database.act_elsewhere(lambda: _do(action, shelf, ids), deed)
    return RedirectResponse(f"{_back(shelf, ids)}did={number}", 303)


async def _do(action: Action, shelf: Shelf, ids: list[TaskId]) -> int:
    """How many tasks were changed: others may have moved on since they were shown."""
    async with shelves.opened(shelf) as store:
        if action.to_one is None:
            return (await store.replay_dlq()).replayed
        done = 0
        for task_id in ids:
            with suppress(TaskNotFound):
                done += await action.to_one(store, task_id)
        return done


async def deed_done(request: Request) -> Told | None:
    """What was just done to tasks, in words."""
    if not asked(request, "did"):
        return None
    deed = await deeds.just_done(request)
    action = ACTIONS.get(deed.action.removeprefix("task ")) if deed else None
    if deed is None or action is None or not deed.action.startswith("task "):
        return None
    detail = deed.detail or {}
    ids, chosen, done = detail.get("ids", []), detail.get("count", 0), detail.get("done", 0)
    told = Told(deed, action.done, f"{done} of {chosen} chosen" if chosen else f"{done} of them")
    if action.undo is None or chosen != len(ids) or not done:
        return told
    link = urlencode({"action": action.undo, "shelf": detail.get("shelf"), "id": ids}, doseq=True)
    undo = ACTIONS[action.undo].button.lower()
    return replace(told, undo=undo, undo_link=f"/task/confirm?{link}")


def _ids(words: list[str]) -> list[TaskId] | None:
    """The ids of a form; None when something else is among them."""
    if len(words) > _MOST_IDS or any(not 0 < len(word) <= LONGEST_ID for word in words):
        return None
    return [TaskId(word) for word in words]


def _noted(ids: list[TaskId]) -> list[TaskId]:
    """As many as an entry of the audit has room for."""
    ends = accumulate(len(each.encode()) + len('"", ') for each in ids)
    return [each for each, end in zip(ids, ends, strict=True) if end <= _NOTED_BYTES]


def _back(shelf: Shelf, ids: list[TaskId]) -> str:
    if len(ids) == 1:
        return f"/task?{urlencode({'shelf': shelf.number, 'id': ids[0]})}&"
    return "/tasks?"
