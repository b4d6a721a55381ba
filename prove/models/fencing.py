"""Claims and their tokens: messages, consumers that may be slow, stop or die, and claims that end.

What a consumer says counts if its token is that of the claim and the claim has not ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from prove.models.explorer import put

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGES = 2
CONSUMERS = 2
MOST_CLAIMS = 5


class Place(Enum):
    READY = "ready"
    CLAIMED = "claimed"
    ENDED = "ended"
    """Claimed, past its deadline, and not yet taken back."""
    DONE = "done"


@dataclass(frozen=True, slots=True)
class State:
    places: tuple[Place, ...] = (Place.READY,) * MESSAGES
    tokens: tuple[int, ...] = (0,) * MESSAGES
    """Of the last claim of each message."""
    hands: tuple[tuple[int, int] | None, ...] = (None,) * CONSUMERS
    """The message and token that each consumer believes to hold."""
    claims: int = 0
    stale: bool = False
    """Somebody was heard who had no right to be."""


class Fencing:
    def __init__(self, *, token_checked: bool = True) -> None:
        self._token_checked = token_checked

    def initial(self) -> State:
        return State()

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        for message, place in enumerate(state.places):
            if place is Place.CLAIMED:
                yield f"the claim of {message} ends", _placed(state, message, Place.ENDED)
        for consumer, hand in enumerate(state.hands):
            if hand is None:
                yield from self._claim(state, consumer)
            else:
                yield from self._say(state, consumer, *hand)

    def _claim(self, state: State, consumer: int) -> Iterator[tuple[str, State]]:
        if state.claims == MOST_CLAIMS:
            return
        for message, place in enumerate(state.places):
            if place in (Place.READY, Place.ENDED):
                token = state.claims + 1
                claimed = _placed(state, message, Place.CLAIMED)
                yield (
                    f"{consumer} claims {message}",
                    replace(
                        claimed,
                        claims=token,
                        tokens=put(state.tokens, message, token),
                        hands=put(state.hands, consumer, (message, token)),
                    ),
                )

    def _say(
        self, state: State, consumer: int, message: int, token: int
    ) -> Iterator[tuple[str, State]]:
        gone = replace(state, hands=put(state.hands, consumer, None))
        yield f"{consumer} dies", gone
        heard = state.places[message] is Place.CLAIMED and (
            state.tokens[message] == token or not self._token_checked
        )
        stale = heard and state.tokens[message] != token
        for word, place in (("acks", Place.DONE), ("gives back", Place.READY)):
            told = _placed(gone, message, place) if heard else gone
            yield f"{consumer} {word} {message}", replace(told, stale=state.stale or stale)
        if heard:
            yield f"{consumer} extends {message}", replace(state, stale=state.stale or stale)

    def wrong(self, state: State) -> str:
        return "a stale token was accepted" if state.stale else ""

    def settled(self, state: State) -> bool:
        # When the model runs out of claims, what can still be claimed again is not lost.
        return all(place is Place.DONE for place in state.places) or state.claims == MOST_CLAIMS


def _placed(state: State, message: int, place: Place) -> State:
    return replace(state, places=put(state.places, message, place))
