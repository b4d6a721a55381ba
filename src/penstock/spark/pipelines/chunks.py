"""Work in numbered chunks, each done once: first the plan is written, then the chunk, then a mark.

Where a chunk is written to remembers (identity, number) in the same transaction as the rows.  So a
run that ends anywhere continues at the first chunk without a mark, and a chunk that was written but
not marked is found to be written already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.spark.pipelines.state import State


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of work: its number, and what it is, as a JSON document."""

    number: int
    work: dict[str, Any]


class Ledger:
    """The chunks of one state: planned, and done with their results."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.app = f"penstock-{state.identity()}"

    def plan(self, work: dict[str, Any]) -> Chunk:
        """Write down the next chunk before it is begun."""
        number = self.planned()
        self._state.write(f"chunks/{number:08}.json", work)
        return Chunk(number, work)

    def planned(self) -> int:
        return sum(1 for _each in self._numbers("json"))

    def open(self) -> Iterator[Chunk]:
        """Planned chunks without a mark, the oldest first."""
        done = set(self._numbers("done"))
        for number in sorted(self._numbers("json")):
            if number not in done:
                yield Chunk(number, self._state.read(f"chunks/{number:08}.json"))

    def finish(self, chunk: Chunk, result: dict[str, Any]) -> None:
        self._state.write(f"chunks/{chunk.number:08}.done", result)

    def finished(self) -> Iterator[tuple[Chunk, dict[str, Any]]]:
        """What was done, and with what result."""
        for number in sorted(self._numbers("done")):
            work = self._state.read(f"chunks/{number:08}.json")
            yield Chunk(number, work), self._state.read(f"chunks/{number:08}.done")

    def _numbers(self, ending: str) -> Iterator[int]:
        folder = self._state.folder / "chunks"
        return (
            int(path.stem) for path in folder.glob(f"*.{ending}") if not path.name.startswith(".")
        )


def work_off(
    ledger: Ledger,
    do: Callable[[Chunk], dict[str, Any]],
    more: Callable[[], dict[str, Any] | None] = lambda: None,
) -> None:
    """Finish what is open, then plan and do chunks as long as there are more."""
    for chunk in ledger.open():
        ledger.finish(chunk, do(chunk))
    while (work := more()) is not None:
        chunk = ledger.plan(work)
        ledger.finish(chunk, do(chunk))
