"""The engine against the model: whatever happens, every message is in exactly one place.

`make test` runs a fixed set of examples, so that a red run is red again; `make prove` looks for new
ones (PENSTOCK_EXAMPLES says how many) and prints how to repeat what it finds.  A failure is reduced
to its shortest form, which takes a while; PENSTOCK_NO_SHRINK leaves that out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.engine import Engine
from tests.conformance.machine import QueueMachine

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

ORDERINGS = ["standard", "filtered", "fifo", "fair"]
_COMMON: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate, *([Phase.shrink] if "PENSTOCK_NO_SHRINK" not in os.environ else [])],
}
BOUNDED = settings(max_examples=20, stateful_step_count=50, derandomize=True, **_COMMON)
LONG = settings(
    max_examples=int(os.environ.get("PENSTOCK_EXAMPLES", "500")),
    stateful_step_count=60,
    print_blob=True,
    **_COMMON,
)


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_every_message_is_in_one_place_after_every_step(
    ordering: str, db: psycopg.Connection[Any], connect: Connect
) -> None:
    _run(ordering, db, connect, BOUNDED)


@pytest.mark.prove
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ordering", ORDERINGS)
def test_every_message_is_in_one_place_in_thousands_of_examples(
    ordering: str, db: psycopg.Connection[Any], connect: Connect
) -> None:
    _run(ordering, db, connect, LONG)


def _run(ordering: str, db: psycopg.Connection[Any], connect: Connect, profile: settings) -> None:
    engine = Engine(db)
    engine.prepare()
    second = Engine(connect(autocommit=False, statement_timeout="30s"))
    db.execute("set statement_timeout = '30s'")
    run_state_machine_as_test(lambda: QueueMachine(ordering, engine, second), settings=profile)
