"""Every store against the same simple model, step by step, with steps that hypothesis thinks of."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.tasks.machine import Machine, opened

if TYPE_CHECKING:
    from tests.tasks.backends import Place

# A planted mutation is looked for, not explained.
PHASES = [Phase.generate] if os.environ.get("PENSTOCK_NO_SHRINK") else list(Phase)


def explore(place: Place, examples: int, steps: int) -> None:
    with opened(place) as (store, runner):
        run_state_machine_as_test(
            lambda: Machine(place, store, runner),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                phases=PHASES,
                database=None,
            ),
        )


def test_the_store_does_what_the_model_does(bare_place: Place):
    explore(bare_place, examples=150 if bare_place.backend.name == "memory" else 50, steps=30)


@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_the_store_does_what_the_model_does_for_long(bare_place: Place):
    explore(bare_place, examples=300, steps=60)
