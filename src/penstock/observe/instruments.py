"""The one list of metrics, shared by Prometheus, OpenTelemetry and the reference.

Names and labels are public: dashboards and alerts stand on them.
"""

from __future__ import annotations

from penstock.observe.events import Event, Name

# A handler may be a dictionary look-up or a report of ten minutes.
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)

# event → metric, its explanation, the event's fields that become labels
COUNTERS: dict[Name, tuple[str, str, tuple[str, ...]]] = {
    Name.MESSAGE_PUBLISHED: ("messages_published", "Messages published", ("topic",)),
    Name.MESSAGE_CLAIMED: ("messages_claimed", "Messages claimed", ("queue",)),
    Name.MESSAGE_ACKED: ("messages_acked", "Messages acked", ("queue",)),
    Name.MESSAGE_FAILED: ("messages_failed", "Attempts that failed", ("queue", "error_kind")),
    Name.MESSAGE_RELEASED: ("messages_released", "Messages given back unattempted", ("queue",)),
    Name.MESSAGE_DEAD_LETTERED: (
        "messages_dead_lettered",
        "Messages that this process gave up",
        ("queue", "error_kind"),
    ),
    Name.CLAIM_EXTENDED: ("claims_extended", "Claims kept alive", ("queue",)),
    Name.CLAIM_LOST: ("claims_lost", "Claims that ended before their work", ("queue",)),
    Name.LISTENER_LOST: ("listener_losses", "LISTEN connections lost", ("error_kind",)),
    Name.CALL_RETRIED: ("calls_retried", "Database calls repeated", ("error_kind",)),
    Name.CALL_FAILED: ("calls_failed", "Database calls given up", ("error_kind",)),
    Name.TASK_ENQUEUED: ("tasks_enqueued", "Tasks enqueued", ("topic",)),
    Name.TASK_DONE: ("tasks_done", "Tasks done", ("topic",)),
    Name.TASK_FAILED: ("tasks_failed", "Attempts at tasks that failed", ("topic", "error_kind")),
    Name.TASK_RELEASED: ("tasks_released", "Tasks given back unattempted", ("topic",)),
    Name.TASK_DEAD_LETTERED: (
        "tasks_dead_lettered",
        "Tasks that this process gave up",
        ("topic", "error_kind"),
    ),
    Name.LEASE_LOST: ("leases_lost", "Leases that ended before their work", ("topic",)),
    Name.SCHEDULE_FIRED: ("schedules_fired", "Schedules fired", ("schedule",)),
}
RISES = {Name.LISTENER_CONNECTED: "listeners", Name.WORKER_STARTED: "workers"}
FALLS = {Name.LISTENER_LOST: "listeners", Name.WORKER_STOPPED: "workers"}
QUEUE_GAUGES = {
    "pending": "Messages waiting, blocked, delayed or retrying",
    "waiting": "Messages that are due: a claim is all that they lack",
    "blocked": "Messages that are due, behind a claimed, delayed or retrying one of their key",
    "delayed": "Messages that are not due yet, never attempted",
    "retrying": "Messages that are not due yet, attempted before",
    "processing": "Messages claimed",
    "scheduled": "Messages delayed or retrying",
    "dead": "Dead letters",
}
RUNNING = {"listeners": "LISTEN connections up", "workers": "Workers running"}
OLDEST = (
    "queue_oldest_pending_timestamp_seconds",
    "Since when the oldest message is due and not claimed; absent when none is",
)
HANDLER = (
    "handler_seconds",
    "Time a handler took, whatever became of it",
    ("queue", "outcome"),
)

# What `penstock metrics` reads from the database: name, explanation, labels.  Those of a queue
# above are served by it too.
DATABASE_GAUGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "up": ("1 when the database answers", ()),
    "health": ("1 when this check of health() is well", ("check",)),
    "queue_paused": ("1 when the queue is paused", ("queue",)),
    "reader_lag": ("Messages that a reader has not committed, up to 10,001", ("reader",)),
    "segments": ("Segments of the log and of the history", ("kind", "state")),
    "segment_bytes": ("Their size", ("kind", "state")),
    "oldest_transaction_seconds": ("Age of the oldest snapshot that vacuum waits for", ()),
}
DATABASE_COUNTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "topic_published": ("Messages published to a topic, by all publishers", ("topic",)),
    "queue_acked": ("Messages that a queue is done with", ("queue",)),
    "queue_failed": ("Attempts that failed in a queue", ("queue",)),
}


def outcome(event: Event) -> str | None:
    """What became of a handler's work; None when the event does not tell."""
    if event.seconds is None:
        return None
    return {Name.MESSAGE_HANDLED: "handled", Name.MESSAGE_FAILED: "failed"}.get(event.name)


def every_metric() -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Name as Prometheus shows it → its kind, its explanation, its labels."""
    found = {f"penstock_{m}_total": ("counter", text, of) for m, text, of in COUNTERS.values()}
    for name, text in RUNNING.items():
        found[f"penstock_{name}"] = ("gauge", text, ())
    name, text, labels = HANDLER
    found[f"penstock_{name}"] = ("histogram", text, labels)
    for name, text in (*((f"queue_{n}", t) for n, t in QUEUE_GAUGES.items()), OLDEST):
        found[f"penstock_{name}"] = ("gauge", text, ("queue",))
    for name, (text, of) in DATABASE_GAUGES.items():
        found[f"penstock_{name}"] = ("gauge", text, of)
    for name, (text, of) in DATABASE_COUNTERS.items():
        found[f"penstock_{name}_total"] = ("counter", text, of)
    return found
