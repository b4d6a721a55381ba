"""Visits every state that a model can get into, and tells of the first that is wrong.

A state is also wrong when nothing that can still happen leads to a settled one: then something is
lost for ever, whatever anybody does.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

S = TypeVar("S", bound="Hashable")


class Model(Protocol[S]):
    def initial(self) -> S: ...

    def steps(self, state: S) -> Iterable[tuple[str, S]]:
        """What can happen next, and what then is."""

    def wrong(self, state: S) -> str:
        """The promise that is broken here; empty when none is."""

    def settled(self, state: S) -> bool:
        """Everything is where it should be in the end."""


@dataclass(frozen=True, slots=True)
class Exploration:
    states: int
    steps: int
    wrong: str
    trace: tuple[str, ...]
    """How to get to what is wrong, by the shortest way."""


def explore(model: Model[S]) -> Exploration:
    start = model.initial()
    origin: dict[S, tuple[S, str] | None] = {start: None}
    before: dict[S, list[S]] = defaultdict(list)
    waiting = deque([start])
    steps = 0
    while waiting:
        state = waiting.popleft()
        if problem := model.wrong(state):
            return Exploration(len(origin), steps, problem, _trace(origin, state))
        for label, following in model.steps(state):
            steps += 1
            before[following].append(state)
            if following not in origin:
                origin[following] = (state, label)
                waiting.append(following)
    hopeless = _hopeless(model, origin, before)
    if hopeless is not None:
        return Exploration(len(origin), steps, "never settled", _trace(origin, hopeless))
    return Exploration(len(origin), steps, "", ())


def _hopeless(model: Model[S], states: Iterable[S], before: dict[S, list[S]]) -> S | None:
    """The first state found from which no settled one can be reached."""
    every = list(states)
    hopeful = {state for state in every if model.settled(state)}
    waiting = deque(hopeful)
    while waiting:
        for state in before.get(waiting.popleft(), ()):
            if state not in hopeful:
                hopeful.add(state)
                waiting.append(state)
    return next((state for state in every if state not in hopeful), None)


def _trace(origin: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    labels: list[str] = []
    while (came := origin[state]) is not None:
        state, label = came
        labels.append(label)
    return tuple(reversed(labels))


def put(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    """The same values with another one at a place."""
    return (*values[:place], value, *values[place + 1 :])
