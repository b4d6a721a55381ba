"""Penstock: a message queue that lives in PostgreSQL."""

from penstock.client._async.client import Client, connect
from penstock.client._async.consumer import Consumer
from penstock.client._async.message import Message
from penstock.client.staging import Outgoing
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
