"""The models of the engine's protocols, and the explorer that visits them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prove.models.explorer import explore
from prove.models.fencing import Fencing
from prove.models.windows import Windows
from prove.parts.models import BROKEN, SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.models.explorer import Model


class Countdown:
    """From three to none, or into a trap."""

    def __init__(self, trap: int | None = None, mine: int | None = None) -> None:
        self._trap, self._mine = trap, mine

    def initial(self) -> int:
        return 3

    def steps(self, state: int) -> Iterator[tuple[str, int]]:
        if state > 0 and state != self._trap:
            yield f"to {state - 1}", state - 1

    def wrong(self, state: int) -> str:
        return "a mine" if state == self._mine else ""

    def settled(self, state: int) -> bool:
        return state == 0


def test_every_state_is_visited() -> None:
    found = explore(Countdown())
    assert (found.states, found.steps, found.wrong) == (4, 3, "")


def test_wrong_state_is_told_with_the_way_to_it() -> None:
    found = explore(Countdown(mine=1))
    assert (found.wrong, found.trace) == ("a mine", ("to 2", "to 1"))


def test_state_without_a_way_out_is_wrong() -> None:
    assert explore(Countdown(trap=2)).wrong == "never settled"


@pytest.mark.parametrize(
    "model", [Fencing(), Windows(), *SMALL.values()], ids=["fencing", "windows", *SMALL]
)
def test_model_keeps_its_promises(model: Model[Any]) -> None:
    assert explore(model).wrong == ""


@pytest.mark.parametrize("name", [name for name in BROKEN if "highest receipt" not in name])
def test_model_without_a_rule_fails(name: str) -> None:
    assert explore(BROKEN[name]).wrong
