"""Workers: handlers, groups and schedules on the client."""

from penstock.client.consumer_options import Mode
from penstock.worker.cron import Missed, Schedule
from penstock.worker.groups import Group, Member
from penstock.worker.invoke import Middleware, Next
from penstock.worker.options import Options, RunIn
from penstock.worker.outcomes import Dead, Retry
from penstock.worker.status import HandlerStatus, State, WorkerStatus
from penstock.worker.worker import Worker

__all__ = [
    "Dead",
    "Group",
    "HandlerStatus",
    "Member",
    "Middleware",
    "Missed",
    "Mode",
    "Next",
    "Options",
    "Retry",
    "RunIn",
    "Schedule",
    "State",
    "Worker",
    "WorkerStatus",
]
