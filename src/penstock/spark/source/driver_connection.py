"""How the driver reaches the database; `adbc` has the connections of tasks.

The connection string is made when the job is planned.  The tasks get it inside the pickled reader
or writer; it is never part of a plan or a log.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping

from penstock.errors import DatabaseUnavailable, PenstockError, translated
from penstock.spark.source.option_names import InvalidOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.postgres._sync.connections import TimedConnection

T = TypeVar("T")

APPLICATION = "penstock spark"
_OUTAGE_SECONDS = 60.0
_REFUSAL_SECONDS = 5.0
"""A server without a free connection refuses too, and may have one a moment later."""
PAUSE_SECONDS = 0.5


def conninfo(url: str | None, user: str | None, password: str | None) -> str:
    """One connection string out of the options; without a url, PENSTOCK_DSN is used.

    It has the defaults of every connection of Penstock, so that tasks on other machines use them.
    """
    given = (url or os.environ.get("PENSTOCK_DSN", "")).removeprefix("jdbc:")
    if not given:
        raise InvalidOption(
            "there is no database to talk to: give option url (postgresql://host:5432/database), "
            "or set PENSTOCK_DSN where the driver runs"
        )
    more = {"user": user, "password": password, "application_name": APPLICATION}
    try:
        info = make_conninfo(
            given, **{name: value for name, value in more.items() if value is not None}
        )
    except psycopg.ProgrammingError:
        # The url itself is not repeated: it may hold a password.
        raise InvalidOption(
            "option url can't be read: it looks like postgresql://user@host:5432/database"
        ) from None
    from penstock.postgres.session import with_defaults  # noqa: PLC0415 - tasks don't need it
    from penstock.settings import Settings  # noqa: PLC0415

    return with_defaults(info, Settings.load(dsn=info))


def is_mysql(url: str) -> bool:
    """Whether a url names a task store on MySQL or MariaDB."""
    return url.partition(":")[0].partition("+")[0].lower() in {"mysql", "mariadb"}


class DriverConnection:
    """The driver's session: opened when first needed, and anew when it breaks.

    `planning`: the first session of a job, which finds out whether name and password are right.
    """

    def __init__(self, info: str, *, planning: bool = False) -> None:
        self._info = info
        self._planning = planning
        self._conn: TimedConnection | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_info": self._info, "_planning": self._planning, "_conn": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def rows(
        self, sql: str, parameters: dict[str, Any] | None = None, *, lasting: bool = False
    ) -> list[tuple[Any, ...]]:
        """Run a statement.  Only what may be run twice: a lost connection is opened again.

        `lasting`: its time grows with the data, so there is no limit to it.
        """

        def run(conn: TimedConnection) -> list[tuple[Any, ...]]:
            with conn.answering(None if lasting else conn.answer_within):
                return conn.execute(sql.encode(), parameters).fetchall()

        return self.persist(run)

    def value(
        self, sql: str, parameters: dict[str, Any] | None = None, *, lasting: bool = False
    ) -> Any:
        """The only value of a statement."""
        return self.rows(sql, parameters, lasting=lasting)[0][0]

    def persist(self, work: Callable[[TimedConnection], T]) -> T:
        """Do some work, again and again while the database is away, for up to a minute."""
        patience = ConnectPatience(self._info, planning=self._planning)
        while True:
            try:
                with translated():
                    return work(self._connection())
            except PenstockError as problem:
                was_connected = self._conn is not None
                self.close()
                if not patience.lasts(problem, was_connected=was_connected):
                    raise
            time.sleep(PAUSE_SECONDS)

    def _connection(self) -> TimedConnection:
        from penstock.postgres import connect  # noqa: PLC0415 - tasks don't need it
        from penstock.settings import Settings  # noqa: PLC0415

        if self._conn is None or self._conn.closed:
            self._conn = None
            self._conn = connect(Settings.load(dsn=self._info))
        return self._conn

    def close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()


class ConnectPatience:
    """How long to try for a connection: through an outage, but when planning not after a refusal.

    libpq gives no SQLSTATE for a connection that failed, and its text is in the language of server
    and client.  But `ping` reads the SQLSTATE, and tells whether the server accepts connections: if
    it does, it has refused this one, because of a wrong name or password.  After planning these are
    known to be right, and a refusal is an outage as well: of the server behind a pooler.
    """

    def __init__(self, info: str, *, planning: bool = False) -> None:
        self._info = info
        self._planning = planning
        self._end = time.monotonic() + _OUTAGE_SECONDS
        self._refused_at: float | None = None

    def lasts(self, problem: Exception, *, was_connected: bool = False) -> bool:
        """Whether to try again after an error."""
        now = time.monotonic()
        if not isinstance(problem, DatabaseUnavailable) or now >= self._end:
            return False
        if was_connected or not self._planning or not _is_refusal(self._info):
            self._refused_at = None
            return True
        if self._refused_at is None:
            # The server may have come up between the attempt and the question.
            self._refused_at = now
            return True
        return not _is_about_password(problem) and now < self._refused_at + _REFUSAL_SECONDS


def _is_refusal(info: str) -> bool:
    return PGconn.ping(info.encode()) == Ping.OK or _names_no_host(info)


def _names_no_host(info: str) -> bool:
    """Whether the names of hosts are all unknown to the resolver."""
    given = conninfo_to_dict(info)
    hosts = [name for name in str(given.get("host") or "").split(",") if name]
    if "hostaddr" in given or not hosts:
        return False
    return all(not host.startswith(("/", "@")) and not _resolves(host) for host in hosts)


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except socket.gaierror as problem:
        return problem.errno != socket.EAI_NONAME
    return True


def _is_about_password(problem: Exception) -> bool:
    """Whether the server had asked for a password before it refused; once more is enough."""
    cause = problem.__cause__
    failed = cause.pgconn if isinstance(cause, psycopg.Error) else None
    return failed is not None and bool(failed.used_password or failed.needs_password)
