"""An outage is waited for; a login that the server refuses is not, in whatever language it does."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo

from penstock import errors
from penstock.spark.source import adbc, driver_connection
from penstock.spark.source.driver_connection import DriverConnection, conninfo
from penstock.testing.server import free_port
from tests.fixtures import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fixtures.databases import Database

OUTAGE_SECONDS = 60


class Clock:
    """Time that passes only while the code under test sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(driver_connection, "time", made)
    monkeypatch.setattr(adbc, "time", made)
    return made


def ask(info: str, *, planning: bool = True) -> list[tuple[Any, ...]]:
    connection = DriverConnection(conninfo(info, None, None), planning=planning)
    try:
        return connection.rows("select 1")
    finally:
        connection.close()


def copy(info: str) -> list[tuple[Any, ...]]:
    with adbc.bulk(conninfo(info, None, None)) as conn, conn.cursor() as cursor:
        cursor.execute("select 1")
        return list(cursor.fetchall())


@contextmanager
def server_with_passwords(database: Database) -> Iterator[str]:
    """Another server, and the DSN of a role that has to give its password there."""
    with cluster.running("passwords", database.server.binaries) as server:
        rules = server.folder / "data" / "pg_hba.conf"
        rules.write_text(f"host all secret all scram-sha-256\n{rules.read_text()}")
        server.administer("create role secret login password 'right'", "select pg_reload_conf()")
        yield make_conninfo(server.dsn("postgres", tcp=True), user="secret")


def test_refused_login_is_not_taken_for_an_outage(database: Database, clock: Clock) -> None:
    role = f"{database.name}_guest"
    database.server.administer(f"create role {role} nologin")
    try:
        with pytest.raises(errors.DatabaseUnavailable):
            ask(make_conninfo(database.tcp_dsn, user=role))
    finally:
        database.server.administer(f"drop role {role}")
    assert clock.now < OUTAGE_SECONDS


@pytest.mark.parametrize("missing", [{"user": "missing"}, {"dbname": "missing"}])
def test_wrong_name_is_not_taken_for_an_outage(
    database: Database, clock: Clock, missing: dict[str, str]
) -> None:
    with pytest.raises(errors.DatabaseUnavailable):
        ask(make_conninfo(database.tcp_dsn, **missing))
    assert clock.now < OUTAGE_SECONDS


def test_unknown_host_is_not_taken_for_an_outage(database: Database, clock: Clock) -> None:
    with pytest.raises(errors.DatabaseUnavailable):
        ask(make_conninfo(database.tcp_dsn, host="missing.invalid"))
    assert clock.now < OUTAGE_SECONDS


def test_wrong_password_is_tried_twice_and_no_more(database: Database, clock: Clock) -> None:
    with server_with_passwords(database) as dsn:
        assert ask(make_conninfo(dsn, password="right")) == [(1,)]
        for wrong in ({"password": "wrong"}, {}):
            clock.now = 0.0
            with pytest.raises(errors.DatabaseUnavailable):
                ask(make_conninfo(dsn, **wrong))
            assert clock.now == driver_connection.PAUSE_SECONDS


@pytest.mark.parametrize("use", [ask, copy])
def test_outage_is_waited_for_whatever_words_its_error_has(
    database: Database, clock: Clock, tmp_path: Path, use: Callable[[str], Any]
) -> None:
    """The path of the socket is part of the error, and says what a wrong name would say."""
    folder = tmp_path / "does not exist"
    clock.on_sleep = lambda: folder.exists() or folder.symlink_to(database.server.folder)
    assert use(make_conninfo(database.dsn, host=str(folder))) == [(1,)]
    assert clock.now == driver_connection.PAUSE_SECONDS


def test_outage_is_waited_for_up_to_a_minute(database: Database, clock: Clock) -> None:
    with pytest.raises(errors.DatabaseUnavailable):
        ask(make_conninfo(database.tcp_dsn, port=free_port()))
    assert clock.now == OUTAGE_SECONDS


@contextmanager
def busy_role(database: Database, clock: Clock, *, free_at: float) -> Iterator[str]:
    """The DSN of a role that has no connection left until then."""
    role = f"{database.name}_busy"
    database.server.administer(f"create role {role} login connection limit 0")
    freed: list[float] = []

    def free() -> None:
        if not freed and clock.now >= free_at:
            freed.append(clock.now)
            database.server.administer(f"alter role {role} connection limit 5")

    clock.on_sleep = free
    yield make_conninfo(database.tcp_dsn, user=role)
    database.server.administer(f"drop role {role}")


def test_refused_login_may_be_a_lack_of_connections(database: Database, clock: Clock) -> None:
    with busy_role(database, clock, free_at=2) as dsn:
        assert ask(dsn) == [(1,)]


@pytest.mark.parametrize("use", [partial(ask, planning=False), copy], ids=["ask", "copy"])
def test_refusal_after_planning_is_waited_for(
    database: Database, clock: Clock, use: Callable[[str], Any]
) -> None:
    """Name and password were right: a pooler may have lost its server, which looks the same."""
    with busy_role(database, clock, free_at=30) as dsn:
        assert use(dsn) == [(1,)]


def test_sessions_can_be_told_from_others_and_notice_a_dead_line(database: Database) -> None:
    connection = DriverConnection(conninfo(database.tcp_dsn, None, None))
    try:
        [(name, idle, isolation)] = connection.rows(
            "select current_setting('application_name'), current_setting('tcp_keepalives_idle'),"
            " current_setting('default_transaction_isolation')"
        )
        assert (name, isolation) == ("penstock spark", "read committed")
        used = connection.persist(lambda conn: conn.info.get_parameters())
        assert used["keepalives_idle"] == "5"
        assert idle is not None
    finally:
        connection.close()
