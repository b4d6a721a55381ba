"""What a person at the command line can do about an error: the engine's own hints speak SQL."""

from __future__ import annotations

from penstock import errors

_CURES: dict[type[errors.PenstockError], str] = {
    errors.UnknownTopic: "penstock topic list shows all topics, penstock topic create makes one",
    errors.UnknownQueue: "penstock queue list shows all queues, penstock queue create makes one",
    errors.UnknownDeadLetter: "penstock dlq list shows all dead letters",
    errors.NotInstalled: "run penstock init",
    errors.QueueExpired: "create it again, and call penstock queue keep-alive in time",
    errors.AlreadyExists: "use the same settings or another name, or delete the old one first",
    errors.Conflict: "another session was faster or holds a lock; try again",
}


# PostgreSQL itself refused; where the engine did, its own hint knows more.
_RIGHTS = (
    "penstock doctor tells which roles this login has; an owner grants another: penstock_publisher,"
    " penstock_consumer, penstock_monitor (to look), penstock_admin (to create, pause, purge)"
)


def explain(problem: errors.PenstockError) -> tuple[str, str | None]:
    """One line that says what is wrong, and one that says what to do, if we know it."""
    message, _, rest = str(problem).partition("\n")
    cure = next((cure for kind, cure in _CURES.items() if isinstance(problem, kind)), None)
    if isinstance(problem, errors.PermissionDenied) and not rest:
        cure = _RIGHTS
    return _one_line(message), cure or _one_line(rest) or None


def _one_line(text: str) -> str:
    return " ".join(text.split())
