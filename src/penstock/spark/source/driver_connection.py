"""How driver and tasks reach the database: psycopg for questions, ADBC for rows.

Where the database is was settled when the job was planned.  It travels to the tasks inside the
pickled reader or writer, and is never part of a plan or a log.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.errors import INSTALL_ADVICE, DatabaseUnavailable, refusal, translate
from penstock.spark.source.option_names import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

APPLICATION = "penstock spark"
_CONNECT_SECONDS = 10
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.5


def conninfo(url: str | None, user: str | None, password: str | None) -> str:
    """One connection string out of the options; without a url, PENSTOCK_DSN is used."""
    given = (url or os.environ.get("PENSTOCK_DSN", "")).removeprefix("jdbc:")
    if not given:
        raise InvalidOption(
            "there is no database to talk to: give option url (postgresql://host:5432/database), "
            "or set PENSTOCK_DSN where the driver runs"
        )
    more = {"user": user, "password": password, "application_name": APPLICATION}
    try:
        known = conninfo_to_dict(given)
        return make_conninfo(
            given,
            connect_timeout=known.get("connect_timeout") or _CONNECT_SECONDS,
            **{name: value for name, value in more.items() if value is not None},
        )
    except psycopg.ProgrammingError:
        # The url itself is not repeated: it may hold a password.
        raise InvalidOption(
            "option url can't be read: it looks like postgresql://user@host:5432/database"
        ) from None


def is_mysql(url: str) -> bool:
    """Whether a url names a task store on MySQL or MariaDB."""
    return url.partition(":")[0].partition("+")[0].lower() in {"mysql", "mariadb"}


class DriverConnection:
    """The driver's session: opened when first needed, and anew when it breaks."""

    def __init__(self, info: str) -> None:
        self._info = info
        self._conn: psycopg.Connection[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_info": self._info, "_conn": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def rows(self, sql: str, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement.  Only what may be run twice: a lost connection is opened again."""
        return self.persist(lambda conn: conn.execute(sql.encode(), parameters).fetchall())

    def value(self, sql: str, parameters: dict[str, Any] | None = None) -> Any:
        """The only value of a statement."""
        return self.rows(sql, parameters)[0][0]

    def persist(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Do some work, again and again while the database is away, for up to a minute."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return work(self._connection())
            except psycopg.Error as problem:
                meaning = translate(problem)
                self.close()
                if not isinstance(meaning, DatabaseUnavailable) or _is_hopeless(problem):
                    raise meaning from problem
                if time.monotonic() >= deadline:
                    raise meaning from problem
            time.sleep(_PAUSE_SECONDS)

    def _connection(self) -> psycopg.Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(self._info, autocommit=True)
        return self._conn

    def close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()


def _is_hopeless(problem: psycopg.Error) -> bool:
    """Nothing was reached at the first try and waiting won't help: a wrong name or password."""
    words = str(problem)
    return problem.sqlstate is None and any(
        sign in words for sign in ("authentication failed", "does not exist", "could not translate")
    )


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

    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            database: Any = _Lasting()
            return dbapi.Connection(database, AdbcConnection(_bulk_database(info)))
        except dbapi.OperationalError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


class _Lasting:
    """Stands for a database that outlives its connections, which would close it otherwise."""

    def close(self) -> None:
        pass


@lru_cache(maxsize=8)
def _bulk_database(info: str) -> Any:
    """What ADBC knows of a database.

    It reads the catalogue of types first, which takes ten times as long as to connect; so it is
    kept for the tasks that this process runs later.
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
