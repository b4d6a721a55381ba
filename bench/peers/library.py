"""What peers share that are measured with their own worker alone: a session only publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.contestants import Claim
    from bench.model import Case
    from bench.payloads import Payload
    from bench.server import Server


class PublishingSession:
    """A session of a library that claims and acks inside its worker only."""

    def publish_one(self, payload: Payload) -> None:
        self.publish_batch([payload])

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        pass

    def preload(self, payloads: Sequence[Payload], batch: int) -> None:  # noqa: ARG002
        self.publish_batch(payloads)

    def claim(self, size: int, queue: int = 0) -> Claim:  # noqa: ARG002
        return self._no_claims()

    def ack(self, claim: Claim) -> None:  # noqa: ARG002
        self._no_claims()

    def housekeep(self) -> None:
        pass

    def pids(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None:
        raise NotImplementedError

    def _no_claims(self) -> NoReturn:
        raise NotImplementedError("this library claims inside its worker only")


class Library:
    """A contestant that any server can run."""

    name: str

    def unavailable(self, server: Server) -> str | None:  # noqa: ARG002
        return None

    def refuses(self, case: Case) -> str | None:  # noqa: ARG002
        return None


def place(dsn: str) -> dict[str, str]:
    """The words of a libpq connection string."""
    return dict(word.split("=", 1) for word in dsn.split())


def keywords(dsn: str) -> dict[str, str]:
    """The same as asyncpg wants it."""
    words = place(dsn)
    return {"host": words["host"], "user": words["user"], "database": words["dbname"]}


def url(dsn: str) -> str:
    """The same as a URL, for drivers that want one; the host is the folder of a socket."""
    words = place(dsn)
    return f"postgresql:///{words['dbname']}?host={words['host']}&user={words['user']}"
