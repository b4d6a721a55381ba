"""The engine's scripts are found, expanded and run as psql would run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from penstock.errors import EngineError, NotInstalled, PenstockError, WrongSchemaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.databases import Database


@pytest.fixture
def sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small engine in place of the real one."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "install.sql").write_text(
        "\\set ON_ERROR_STOP on\nbegin;\ncreate schema if not exists penstock;\n"
        "\\ir inner/all.sql\n  \\echo done\ncommit;\n",
        encoding="utf-8",
    )
    (tmp_path / "inner" / "all.sql").write_text("\\ir version.sql", encoding="utf-8")
    (tmp_path / "inner" / "version.sql").write_text(
        "create or replace function penstock.schema_version() returns int\n"
        f"language sql as 'select {schema.EXPECTED_VERSION}';\n"
        "create or replace function penstock.schema_revision() returns int\n"
        f"language sql as 'select {schema.EXPECTED_REVISION}';",
        encoding="utf-8",
    )
    (tmp_path / "uninstall.sql").write_text("drop schema penstock cascade;", encoding="utf-8")
    monkeypatch.setattr(schema, "folder", lambda: tmp_path)
    schema.fingerprint.cache_clear()
    yield tmp_path
    schema.fingerprint.cache_clear()


@pytest.fixture
def session(empty_database: Database) -> Any:
    with psycopg.connect(empty_database.dsn, autocommit=True) as conn:
        yield conn


def test_includes_are_expanded_relative_to_their_file(sql: Path) -> None:
    assert schema.script("install.sql").split("\n", 2)[:2] == [
        "create schema if not exists penstock;",
        "create or replace function penstock.schema_version() returns int",
    ]


def test_commands_of_psql_are_left_out(sql: Path) -> None:
    text = schema.script("install.sql")
    assert "\\" not in text
    assert "commit" not in text


def test_script_that_includes_itself_is_refused(sql: Path) -> None:
    (sql / "inner" / "version.sql").write_text("\\ir all.sql", encoding="utf-8")
    with pytest.raises(PenstockError, match="includes itself"):
        schema.script("install.sql")


def test_install_again_and_again_then_uninstall(
    sql: Path, session: psycopg.Connection[Any]
) -> None:
    assert schema.installed_version(session) is None
    for _ in range(2):
        schema.install(session)
        assert schema.installed_version(session) == schema.EXPECTED_VERSION
        schema.check(session)
    schema.uninstall(session)
    assert schema.installed_version(session) is None


def test_failed_install_leaves_nothing(sql: Path, session: psycopg.Connection[Any]) -> None:
    (sql / "inner" / "version.sql").write_text("select 1/0;", encoding="utf-8")
    with pytest.raises(EngineError):
        schema.install(session)
    assert session.execute("select to_regnamespace('penstock')").fetchone() == (None,)


def test_version_can_be_asked_inside_a_transaction(sql: Path, empty_database: Database) -> None:
    with psycopg.connect(empty_database.dsn, row_factory=psycopg.rows.dict_row) as conn:
        conn.execute("create table kept ()")
        assert schema.installed_version(conn) is None
        schema.install(conn)
        assert schema.installed_version(conn) == schema.EXPECTED_VERSION
        assert conn.execute("select 'kept'::regclass").fetchone() is not None


def test_engine_of_other_scripts_is_replaced_and_one_of_these_is_left_alone(
    sql: Path, session: psycopg.Connection[Any]
) -> None:
    assert schema.follow(session)
    assert schema.installed_fingerprint(session) == schema.fingerprint()
    assert not schema.follow(session)
    (sql / "inner" / "more.sql").write_text(
        "create or replace function penstock.more() returns int language sql as 'select 7';",
        encoding="utf-8",
    )
    (sql / "inner" / "all.sql").write_text("\\ir version.sql\n\\ir more.sql", encoding="utf-8")
    schema.fingerprint.cache_clear()
    assert schema.installed_fingerprint(session) != schema.fingerprint()
    assert schema.follow(session)
    assert session.execute("select penstock.more()").fetchone() == (7,)


def test_engine_without_a_fingerprint_is_replaced(
    sql: Path, session: psycopg.Connection[Any]
) -> None:
    """As earlier checkouts left it."""
    schema.install(session)
    session.execute("drop function penstock.schema_fingerprint()")
    assert schema.installed_fingerprint(session) is None
    assert schema.follow(session)
    assert schema.installed_fingerprint(session) == schema.fingerprint()


def test_newer_engine_is_not_replaced_by_an_older_one(
    sql: Path, session: psycopg.Connection[Any]
) -> None:
    schema.install(session)
    session.execute(
        "create or replace function penstock.schema_version() returns int language sql "
        f"as 'select {schema.EXPECTED_VERSION + 1}'"
    )
    assert not schema.follow(session)
    assert schema.installed_version(session) == schema.EXPECTED_VERSION + 1


def test_missing_engine_says_how_to_install(session: psycopg.Connection[Any]) -> None:
    with pytest.raises(NotInstalled, match="penstock init"):
        schema.check(session)


def test_older_engine_wants_an_install() -> None:
    with pytest.raises(WrongSchemaVersion, match="penstock init"):
        schema.require_expected(schema.EXPECTED_VERSION - 1)


def test_newer_engine_wants_a_newer_package() -> None:
    with pytest.raises(WrongSchemaVersion, match="upgrade the penstock package"):
        schema.require_expected(schema.EXPECTED_VERSION + 1)


def test_real_scripts_hold_no_psql_commands() -> None:
    for name in ("install.sql", "uninstall.sql"):
        assert not [line for line in schema.script(name).splitlines() if line.startswith("\\")]


def test_wheel_carries_the_engine(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(build, check=True, capture_output=True, cwd=root)
    (wheel,) = tmp_path.glob("*.whl")
    listed = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", wheel], check=True, capture_output=True, text=True
    ).stdout
    here = {path.relative_to(root).as_posix() for path in (root / "sql").rglob("*.sql")}
    assert here
    assert not {path for path in here if f"penstock/{path}" not in listed}
