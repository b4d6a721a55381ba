"""The rules of a task store, written down once more and as simply as can be: a list and loops."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(slots=True)
class Row:
    id: str
    topic: str
    tenant: str
    priority: int
    max_attempts: int
    created: int
    """A number in the order of creation."""
    born: int
    """The minute of creation."""
    available: int
    expires: int | None
    key: str | None
    status: str = "queued"
    attempts: int = 0
    owner: str | None = None
    until: int = 0


class Model:
    """Time is in whole minutes."""

    def __init__(self) -> None:
        self.now = 0
        self.rows: dict[str, Row] = {}
        self.letters: list[str] = []

    def insert(self, row: Row, dedupe: str | int) -> str:
        """The id under which it is stored: its own, or the first one's."""
        holder = next(
            (
                each
                for each in self.rows.values()
                if row.key is not None and (each.tenant, each.key) == (row.tenant, row.key)
            ),
            None,
        )
        if holder is not None:
            if self._keeps_out(holder, dedupe):
                return holder.id
            holder.key = None
        self.rows[row.id] = row
        return row.id

    def _keeps_out(self, holder: Row, dedupe: str | int) -> bool:
        if dedupe == "forever":
            return True
        if dedupe == "open":
            late = holder.expires is not None and holder.expires <= self.now
            return holder.status == "leased" or (holder.status == "queued" and not late)
        assert isinstance(dedupe, int)
        return holder.born + dedupe > self.now

    def reserve(
        self, owner: str, topics: list[str] | None, tenant: str | None, limit: int, lease: int
    ) -> list[str]:
        for row in self.rows.values():
            self._tidy(row)
        ready = [
            row
            for row in self.rows.values()
            if row.status == "queued"
            and row.available <= self.now
            and (topics is None or row.topic in topics)
            and tenant in (None, row.tenant)
        ]
        ready.sort(key=lambda row: (-row.priority, row.created))
        for row in ready[:limit]:
            row.status, row.owner, row.until = "leased", owner, self.now + lease
            row.attempts += 1
        return [row.id for row in ready[:limit]]

    def _tidy(self, row: Row) -> None:
        late = row.expires is not None and row.expires <= self.now
        if row.status == "leased" and row.until <= self.now:
            if row.attempts >= row.max_attempts:
                self._die(row)
            else:
                row.status, row.available = "expired" if late else "queued", self.now
        elif row.status == "queued" and late:
            row.status = "expired"

    def _die(self, row: Row) -> None:
        row.status = "dead"
        self.letters.append(row.id)

    def held(self, task_id: str, owner: str, attempt: int) -> Row | None:
        row = self.rows[task_id]
        holds = (row.status, row.owner, row.attempts) == ("leased", owner, attempt)
        return row if holds and row.until > self.now else None

    def ack(self, row: Row) -> None:
        row.status = "done"

    def release(self, row: Row, delay: int, *, counts: bool) -> str:
        if counts and row.attempts >= row.max_attempts:
            self._die(row)
        else:
            row.status, row.available = "queued", self.now + delay
            row.max_attempts += 0 if counts else 1
        return row.status

    def bury(self, row: Row) -> None:
        self._die(row)

    def extend(self, row: Row, by: int) -> None:
        row.until = max(row.until, self.now + by)

    def cancel(self, task_id: str) -> bool:
        row = self.rows[task_id]
        if row.status not in ("queued", "leased"):
            return False
        row.status = "dead"
        return True

    def retry(self, task_id: str) -> bool:
        row = self.rows[task_id]
        if row.status in ("leased", "done"):
            return False
        self.letters = [each for each in self.letters if each != task_id]
        row.attempts = 0
        self._live_again(row, self.now)
        return True

    def replay(self, limit: int, *, reset: bool) -> tuple[int, int]:
        moved = self.letters[:limit]
        self.letters = self.letters[limit:]
        for task_id in moved:
            row = self.rows[task_id]
            if reset:
                row.attempts = 0
            else:
                row.max_attempts = max(row.max_attempts, row.attempts + 1)
            self._live_again(row, self.now)
        return len(moved), len(self.letters)

    def _live_again(self, row: Row, available: int) -> None:
        row.status, row.available = "queued", available
        if row.expires is not None and row.expires <= self.now:
            row.expires = None

    def counts(self) -> Counter[str]:
        return Counter(row.status for row in self.rows.values())
