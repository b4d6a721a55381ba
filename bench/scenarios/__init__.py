"""The scenarios, in the order in which they run and are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bench.scenarios.claim_ack import ClaimAck
from bench.scenarios.clients import Clients
from bench.scenarios.curves import CURVES
from bench.scenarios.drain import Drain
from bench.scenarios.fan_out import FanOutClaim, FanOutPublish
from bench.scenarios.held_snapshot import HeldSnapshot
from bench.scenarios.jobs import WorkersAndJobs
from bench.scenarios.open_writer import OpenWriter
from bench.scenarios.paced import Paced
from bench.scenarios.payload_size import PayloadSize
from bench.scenarios.publish import Publish
from bench.scenarios.trickle import Trickle
from bench.scenarios.wakeup import Wakeup
from bench.scenarios.worker import WholeWorker
from bench.scenarios.workers import WorkerProcesses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.arena import Arena
    from bench.model import Result


class Scenario(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    #: Whether the contestants with durable claims tell something new here.
    @property
    def claims(self) -> bool: ...
    def run(self, arena: Arena) -> list[Result]: ...


_ALL: tuple[Scenario, ...] = (
    Publish(),
    ClaimAck(),
    Trickle(),
    Clients(),
    FanOutPublish(),
    FanOutClaim(),
    Drain(),
    HeldSnapshot(),
    OpenWriter(),
    Paced(),
    PayloadSize(),
    WholeWorker(),
    WorkersAndJobs(),
    WorkerProcesses(),
    Wakeup(),
    *CURVES,
)

SCENARIOS: Mapping[str, Scenario] = {scenario.name: scenario for scenario in _ALL}
