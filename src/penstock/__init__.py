"""Penstock: a message queue that lives in PostgreSQL."""

from penstock.errors import PenstockError
from penstock.models import (
    DeadLetter,
    Message,
    MessageId,
    MessageState,
    Notify,
    Ordering,
    QueueId,
    QueueInfo,
    QueueStatistics,
    ReaderId,
    TopicId,
    TopicInfo,
)
from penstock.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "DeadLetter",
    "Message",
    "MessageId",
    "MessageState",
    "Notify",
    "Ordering",
    "PenstockError",
    "QueueId",
    "QueueInfo",
    "QueueStatistics",
    "ReaderId",
    "Settings",
    "TopicId",
    "TopicInfo",
    "__version__",
]
