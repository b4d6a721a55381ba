"""What a pipeline did, as it tells at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Summary:
    """The same for every pipeline; what only one of them knows stands in `details`."""

    pipeline: str
    rows: int
    seconds: float
    batches: int = 0
    rejected: int = 0
    lag: int | None = None
    state: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def facts(self) -> dict[str, Any]:
        """One flat mapping, in the order in which a person wants to read it."""
        found: dict[str, Any] = {"pipeline": self.pipeline, "rows": self.rows}
        if self.rejected:
            found["rejected"] = self.rejected
        found["batches"] = self.batches
        found["seconds"] = round(self.seconds, 1)
        found["rows_per_second"] = round(self.rows_per_second)
        if self.lag is not None:
            found["lag"] = self.lag
        found |= self.details
        if self.state is not None:
            found["state"] = self.state
        return found
