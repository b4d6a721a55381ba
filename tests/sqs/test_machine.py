"""boto3 against a model of SQS: the same few examples for every change, many new ones for long."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.sqs.machine import Machine

if TYPE_CHECKING:
    from tests.sqs.running import Running

# Shrinking asks the server a thousand times; the long programme does it.
QUICK = (Phase.explicit, Phase.generate)


def _run(
    door: Running, *, fifo: bool, examples: int, steps: int, phases: tuple[Phase, ...] = QUICK
) -> None:
    sqs = door.boto3()
    with contextlib.closing(sqs), psycopg.connect(door.dsn, autocommit=True) as db:
        run_state_machine_as_test(
            lambda: Machine(sqs, db, fifo=fifo),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                phases=phases,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_a_queue_behaves_like_its_model(door: Running, fifo: bool) -> None:
    _run(door, fifo=fifo, examples=10, steps=25)


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_a_queue_behaves_like_its_model_for_long(door: Running, fifo: bool) -> None:
    _run(door, fifo=fifo, examples=100, steps=50, phases=tuple(Phase))
