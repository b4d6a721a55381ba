"""The Python door against the same model as the engine: a few examples of what `make prove` plays.

The second queue of an example has any ordering, so two to begin with are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from penstock import sync
from tests.conformance.client_machine import ClientMachine
from tests.conformance.engine import Engine

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect, Database


@pytest.mark.parametrize("ordering", ["standard", "fifo"])
def test_client_does_what_the_model_does(
    ordering: str, database: Database, db: psycopg.Connection[Any], connect: Connect
) -> None:
    Engine(db).prepare()
    second = connect(autocommit=False, statement_timeout="30s")
    with sync.connect(database.dsn) as client:
        run_state_machine_as_test(
            lambda: ClientMachine(ordering, client, db, second),
            settings=settings(
                max_examples=6,
                stateful_step_count=30,
                derandomize=True,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
            ),
        )
