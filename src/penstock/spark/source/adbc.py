"""Rows in bulk: the connections of tasks, which read and write Arrow through ADBC.

ADBC has a libpq of its own, so this is a second way to the server, with the driver's connection
string.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock.errors import INSTALL_ADVICE, DatabaseUnavailable, refusal
from penstock.spark.source.driver_connection import PAUSE_SECONDS, ConnectPatience

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def bulk(info: str) -> Iterator[Any]:
    """An ADBC connection for one task, in a transaction; its errors are Penstock's."""
    # Imported where it is used: Spark commits every batch in a new process, which needs none of it.
    from adbc_driver_manager import dbapi as manager  # noqa: PLC0415

    try:
        conn = _bulk_connection(info)
        try:
            yield conn
        finally:
            conn.close()
    except manager.Error as problem:
        raise translated(problem) from problem


def _bulk_connection(info: str) -> Any:
    from adbc_driver_manager import AdbcConnection, dbapi  # noqa: PLC0415

    patience = ConnectPatience(info)
    while True:
        try:
            database: Any = _Lasting()
            return dbapi.Connection(database, AdbcConnection(_bulk_database(info)))
        except dbapi.OperationalError as problem:
            if not patience.lasts(DatabaseUnavailable(str(problem))):
                raise
        time.sleep(PAUSE_SECONDS)


class _Lasting:
    """A database that stays open when a connection is closed: ADBC would close it as well."""

    def close(self) -> None:
        pass


@lru_cache(maxsize=8)
def _bulk_database(info: str) -> Any:
    """What ADBC knows of a database.

    It reads the catalogue of types first, which takes ten times as long as to connect.  So it is
    kept for the next tasks of this process.
    """
    import adbc_driver_postgresql as adbc  # noqa: PLC0415

    return adbc.connect(info)


def translated(problem: Any) -> Exception:
    """What an error of ADBC means."""
    code = (problem.sqlstate or "").strip("\0 ")
    words = str(problem)
    if not code:
        return DatabaseUnavailable(f"the database can't be reached: {words}")
    if code == "42P01" and "penstock_stage" in words:
        return refusal("PS017", f"the stage is gone: {words}", "Run the write again.")
    return refusal(code, words, _hint(code))


def _hint(code: str) -> str | None:
    return INSTALL_ADVICE if code in {"3F000", "42883"} else None
