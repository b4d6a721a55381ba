"""One-line changes that break a promise; the twins of the attacks run under one of them."""

from __future__ import annotations

import hmac
import logging
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def unguarded_json() -> Iterator[None]:
    """What msgspec raises is not turned into a refusal."""
    from penstock.sqs.protocol import json_protocol  # noqa: PLC0415

    def read(action: str, body: bytes) -> Any:
        return json_protocol._decoder(action).decode(body or b"{}")  # noqa: SLF001

    with patch.object(json_protocol, "read", read):
        yield


@contextmanager
def unchecked_signatures() -> Iterator[None]:
    """The comparison of signatures is always content."""
    from penstock.sqs.auth import authentication  # noqa: PLC0415

    careless = SimpleNamespace(digest=hmac.digest, compare_digest=lambda *_: True)
    with patch.object(authentication, "hmac", careless):
        yield


@contextmanager
def strangers_allowed() -> Iterator[None]:
    """Whose queue it is does not matter."""
    from penstock.sqs.auth import authorization  # noqa: PLC0415

    with patch.object(authorization, "check_queue", lambda *_: None):
        yield


@contextmanager
def no_limits() -> Iterator[None]:
    """Bodies of any size, clients of any slowness."""
    from penstock.sqs.server_options import Options  # noqa: PLC0415

    made = Options.__init__

    def unlimited(self: Options, *words: Any, **given: Any) -> None:
        from datetime import timedelta  # noqa: PLC0415

        slow = timedelta(hours=1)
        more = {"largest_body": 2**40, "header_deadline": slow, "body_deadline": slow}
        made(self, *words, **(given | more))

    with patch.object(Options, "__init__", unlimited):
        yield


@contextmanager
def connection_a_poll() -> Iterator[None]:
    """Each long poll waits on a database connection of its own."""
    import psycopg  # noqa: PLC0415

    from penstock.sqs.backend.long_polls import Polls  # noqa: PLC0415

    waited = Polls.wait

    async def wait(self: Polls, *words: Any) -> bytes:
        dsn = self._service._database.settings.dsn  # noqa: SLF001
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True):
            return await waited(self, *words)

    with patch.object(Polls, "wait", wait):
        yield


@contextmanager
def payloads_logged() -> Iterator[None]:
    """A line of the log that helps with debugging."""
    from penstock.client.calls import publications  # noqa: PLC0415

    encoded = publications.encode

    def encode(value: Any) -> str:
        logging.getLogger("penstock.client").debug("publishing %s", value)
        return encoded(value)

    with patch.object(publications, "encode", encode):
        yield


@contextmanager
def names_in_sql() -> Iterator[None]:
    """A call formats the name into its text."""
    from penstock.client import calls  # noqa: PLC0415
    from penstock.client.values import one  # noqa: PLC0415

    def create_topic(topic: str, **_options: Any) -> calls.Call[int]:
        return calls.Call(f"select penstock.create_topic('{topic}')", (), one(int))

    with patch.object(calls, "create_topic", create_topic):
        yield


SABOTAGES: dict[str, Callable[[], Any]] = {
    each.__name__: each
    for each in (
        unguarded_json,
        unchecked_signatures,
        strangers_allowed,
        no_limits,
        connection_a_poll,
        payloads_logged,
    )
}
