"""Playing machines until enough steps were made, and noticing when one disagrees with its model."""

from __future__ import annotations

import itertools
import random
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypothesis.stateful import RuleBasedStateMachine

    Make = Callable[[], RuleBasedStateMachine]

EXAMPLES = 20
STEPS = 50
_MACHINES = Path(__file__).resolve().parents[2] / "tests"
# What a comparison raises that fails; anything else is trouble of another kind.
_WRONG = (AssertionError, pytest.fail.Exception)


class Disagreement(Exception):
    """A door and its model told different things; the text is the example."""


class Exploration:
    """Rounds of examples, each from a seed of its own, for one kind of machine after the other."""

    def __init__(self, seed: int | str, *, shrink: bool) -> None:
        self.steps = 0
        """Rules that were run, and everything compared after each."""
        self._wrong: BaseException | None = None
        self._luck = random.Random(seed)
        shrinking = [Phase.shrink] if shrink else []
        self._settings = settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            phases=[Phase.generate, *shrinking],
            report_multiple_bugs=False,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )

    def go_on(self, kinds: Iterable[Make], wanted: int) -> None:
        """Until this many steps were made in all, or a little more."""
        for make in itertools.cycle([self._counted(each) for each in kinds]):
            if self.steps >= wanted:
                return
            hypothesis.seed(self._luck.getrandbits(64))(make)
            try:
                run_state_machine_as_test(make, settings=self._settings)
            except BaseException as problem:
                # One that does not come again when hypothesis repeats it is one all the same.
                if self._wrong is None or isinstance(problem, KeyboardInterrupt):
                    raise
                raise Disagreement(_told(self._wrong, problem)) from problem

    def _counted(self, make: Make) -> Make:
        def made() -> RuleBasedStateMachine:
            machine = make()
            check, end = machine.check_invariants, machine.teardown
            # Everything is compared before the first step, too.
            self.steps -= 1

            def checked(*arguments: Any) -> None:
                check(*arguments)
                self.steps += 1

            def ended() -> None:
                problem = sys.exception()
                if isinstance(problem, _WRONG) and self._wrong is None:
                    self._wrong = problem
                end()

            machine.check_invariants = checked  # type: ignore[method-assign]
            machine.teardown = ended  # type: ignore[method-assign]
            return machine

        return made


def _told(wrong: BaseException, raised: BaseException) -> str:
    """What was wrong, and the steps that led there, which hypothesis leaves as notes."""
    frames = traceback.extract_tb(wrong.__traceback__)
    ours = [each for each in frames if Path(each.filename).is_relative_to(_MACHINES)]
    place = (ours or frames)[-1]
    head = f"{place.name}: {place.line}: {wrong}"
    return "\n".join([head, *getattr(raised, "__notes__", ())])
