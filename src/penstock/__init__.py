"""Penstock: a message queue that lives in PostgreSQL.

Names are imported when they are first used, so that `import penstock` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client._async.client import Client, connect
    from penstock.client._async.consumer import Consumer
    from penstock.client._async.message import Message
    from penstock.client.outgoing import Outgoing
    from penstock.errors import PenstockError
    from penstock.models import (
        BrowsedMessage,
        ClaimedMessage,
        DeadLetter,
        HealthCheck,
        KeyCount,
        LogMessage,
        MaintenanceStep,
        MessageId,
        MessageState,
        Notify,
        Ordering,
        Published,
        PublishedMany,
        QueueId,
        QueueInfo,
        QueueStatistics,
        ReaderId,
        ReaderInfo,
        TopicId,
        TopicInfo,
    )
    from penstock.settings import Settings
    from penstock.worker import Dead, Group, Retry, Worker, WorkerStatus

__version__ = "0.1.0"

__all__ = [
    "BrowsedMessage",
    "ClaimedMessage",
    "Client",
    "Consumer",
    "Dead",
    "DeadLetter",
    "Group",
    "HealthCheck",
    "KeyCount",
    "LogMessage",
    "MaintenanceStep",
    "Message",
    "MessageId",
    "MessageState",
    "Notify",
    "Ordering",
    "Outgoing",
    "PenstockError",
    "Published",
    "PublishedMany",
    "QueueId",
    "QueueInfo",
    "QueueStatistics",
    "ReaderId",
    "ReaderInfo",
    "Retry",
    "Settings",
    "TopicId",
    "TopicInfo",
    "Worker",
    "WorkerStatus",
    "__version__",
    "connect",
]

_HOMES = {
    "penstock.client._async.client": (
        "Client",
        "connect",
    ),
    "penstock.client._async.consumer": ("Consumer",),
    "penstock.client._async.message": ("Message",),
    "penstock.client.outgoing": ("Outgoing",),
    "penstock.errors": ("PenstockError",),
    "penstock.models": (
        "BrowsedMessage",
        "ClaimedMessage",
        "DeadLetter",
        "HealthCheck",
        "KeyCount",
        "LogMessage",
        "MaintenanceStep",
        "MessageId",
        "MessageState",
        "Notify",
        "Ordering",
        "Published",
        "PublishedMany",
        "QueueId",
        "QueueInfo",
        "QueueStatistics",
        "ReaderId",
        "ReaderInfo",
        "TopicId",
        "TopicInfo",
    ),
    "penstock.settings": ("Settings",),
    "penstock.worker": (
        "Dead",
        "Group",
        "Retry",
        "Worker",
        "WorkerStatus",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = frozenset({"client", "embedded", "errors", "models", "observe", "schema", "settings"})
_MODULES |= {"sync", "tasks", "testing", "worker"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"penstock.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
