"""What the server can do at most: the physics beside which every figure stands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench import figures
from bench.payloads import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from bench.payloads import Payload
    from bench.server import Server

ROUNDS = 5
CALLS = 300
ROWS = 20_000


def measure(server: Server) -> Mapping[str, float]:
    """A bare round trip and a durable insert in milliseconds, and rows a second of a COPY."""
    with server.admin() as connection:
        connection.execute("create table limits (id bigint generated always as identity, d jsonb)")
        try:
            return {
                "select_ms": _call_ms(lambda: connection.execute("select 1", prepare=True)),
                "insert_commit_ms": _call_ms(_insert(connection)),
                "copy_rows_per_second": _copy_rate(connection, Stream().take(ROWS)),
            }
        finally:
            connection.execute("drop table limits")


def _insert(connection: psycopg.Connection) -> Callable[[], object]:
    [payload] = Stream().take(1)
    statement = "insert into limits (d) values (%s)"
    return lambda: connection.execute(statement, (payload.text,), prepare=True)


def _call_ms(call: Callable[[], object]) -> float:
    """Milliseconds of a call, in the middle one of some rounds."""
    return round(1000 * _middle(lambda: _seconds(call, CALLS) / CALLS), 4)


def _copy_rate(connection: psycopg.Connection, payloads: Sequence[Payload]) -> float:
    def copy() -> None:
        with connection.cursor().copy("copy limits (d) from stdin") as lines:
            for payload in payloads:
                lines.write_row((payload.text,))

    return round(1 / _middle(lambda: _seconds(copy, 1) / len(payloads)))


def _seconds(call: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        call()
    return time.perf_counter() - began


def _middle(measured: Callable[[], float]) -> float:
    found = figures.middle(measured() for _ in range(ROUNDS))
    assert found is not None
    return found


def sentence(limits: Mapping[str, float]) -> str:
    return (
        f"limits here: select {limits['select_ms']:.3f} ms,"
        f" durable insert of a row {limits['insert_commit_ms']:.3f} ms,"
        f" COPY {limits['copy_rows_per_second']:,.0f} rows/s"
    )
