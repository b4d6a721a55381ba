"""Where an export reads: pages of a queue, of a topic's log, or of the dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.cli.output import fields
from penstock.cli.session import Session
from penstock.client import calls
from penstock.client.calls import transfers

PAGE = 1000
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """What is exported: its kind and name, its columns, and the function that gets a page."""

    kind: str
    name: str
    columns: tuple[str, ...]
    page: Callable[[Session, int], list[tuple[int, Record]]]

    def pages(self, session: Session, after: int) -> Iterator[tuple[int, list[Record]]]:
        """Each page with the place from which the next one goes on; the end is a short page."""
        while found := self.page(session, after):
            after = found[-1][0]
            yield after, [record for _, record in found]
            if len(found) < PAGE:
                return


_COMMON = ("payload", "headers", "key", "priority", "correlation_id", "tenant_id", "published_at")


def of_queue(name: str) -> Source:
    """What the queue is not done with."""

    def page(session: Session, after: int) -> list[tuple[int, Record]]:
        found = session.run(calls.browse(name, after=after, page_size=PAGE))
        return [(each.id, fields(each)) for each in found]

    return Source("queue", name, ("id", *_COMMON, "state", "attempt", "visible_at"), page)


def of_topic(name: str) -> Source:
    """All messages that the log still keeps, read or not."""

    def page(session: Session, after: int) -> list[tuple[int, Record]]:
        found = session.run(transfers.browse_topic(name, after=after, page_size=PAGE))
        return [(each.id, fields(each)) for each in found]

    return Source("topic", name, ("id", *_COMMON, "deliver_after", "expires_at"), page)


def of_dead_letters(name: str) -> Source:
    """The queue's dead letters, with their last error and their attempts."""

    def page(session: Session, after: int) -> list[tuple[int, Record]]:
        found = session.run(transfers.dead_letter_page(name, after=after, page_size=PAGE))
        return [(each.place, _dead(fields(each.letter))) for each in found]

    columns = ("id", *_COMMON, "queue", "attempts", "error", "died_at", "history")
    return Source("dead letters", name, columns, page)


def _dead(record: Record) -> Record:
    return {"id": record.pop("message_id"), **record}
