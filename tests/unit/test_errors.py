"""The driver's errors become Penstock's by SQLSTATE."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import errors
from penstock.errors import BY_SQLSTATE, translate

if TYPE_CHECKING:
    from tests.fixtures.databases import Database


@pytest.fixture
def session(empty_database: Database) -> Any:
    with psycopg.connect(empty_database.dsn, autocommit=True) as conn:
        yield conn


def refused(session: psycopg.Connection[Any], statement: str) -> errors.PenstockError:
    with pytest.raises(psycopg.Error) as caught:
        session.execute(statement.encode())
    return translate(caught.value)


@pytest.mark.parametrize("code", [code for code in BY_SQLSTATE if code.startswith("PS")])
def test_engine_code_gives_its_own_error(session: psycopg.Connection[Any], code: str) -> None:
    error = refused(
        session,
        f"do $$ begin raise 'no such thing' using errcode = '{code}', hint = 'make one'; end $$",
    )
    assert type(error) is BY_SQLSTATE[code]
    assert isinstance(error, errors.EngineError)
    assert (error.code, error.hint, error.message) == (code, "make one", "no such thing")
    assert str(error) == "no such thing\nmake one"


def test_call_without_engine_says_how_to_install(session: psycopg.Connection[Any]) -> None:
    error = refused(session, "select penstock.schema_version()")
    assert isinstance(error, errors.NotInstalled)
    assert "penstock init" in str(error)


def test_call_of_missing_function_says_how_to_install(session: psycopg.Connection[Any]) -> None:
    session.execute("create schema penstock")
    assert isinstance(refused(session, "select penstock.nothing()"), errors.NotInstalled)


def test_users_own_missing_function_is_not_ours(session: psycopg.Connection[Any]) -> None:
    error = refused(session, "select nothing()")
    assert type(error) is errors.EngineError
    assert error.code == "42883"


def test_refusal_by_postgres_is_permission_denied(session: psycopg.Connection[Any]) -> None:
    session.execute("set role pg_monitor")
    assert isinstance(refused(session, "create schema x"), errors.PermissionDenied)


def test_read_only_transaction_is_a_standby(session: psycopg.Connection[Any]) -> None:
    session.execute("set default_transaction_read_only = on")
    assert isinstance(refused(session, "create schema x"), errors.StandbyServer)


def test_lost_connection_is_database_unavailable(empty_database: Database) -> None:
    with psycopg.connect(empty_database.dsn) as conn, pytest.raises(psycopg.Error) as caught:
        conn.execute("select pg_terminate_backend(pg_backend_pid())")
    assert isinstance(translate(caught.value), errors.DatabaseUnavailable)


def test_unreachable_server_is_database_unavailable(tmp_path: Path) -> None:
    with pytest.raises(psycopg.Error) as caught:
        psycopg.connect(host=str(tmp_path), port=1)
    error = translate(caught.value)
    assert isinstance(error, errors.DatabaseUnavailable)
    assert "PENSTOCK_DSN" in str(error)


def test_use_of_a_closed_connection_is_database_unavailable(empty_database: Database) -> None:
    conn = psycopg.connect(empty_database.dsn)
    conn.close()
    with pytest.raises(errors.DatabaseUnavailable), errors.translated():
        conn.execute("select 1")


def test_translated_keeps_the_cause(session: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.EngineError) as caught, errors.translated():
        session.execute("select 1/0")
    assert isinstance(caught.value.__cause__, psycopg.errors.DivisionByZero)


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = set(re.findall(r"── (\w+)", errors.__doc__ or "")) | {"PenstockError"}
    defined = {name for name, value in vars(errors).items() if _is_ours(value)}
    assert drawn == defined


def _is_ours(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, errors.PenstockError)


def test_every_code_of_the_engine_has_an_error() -> None:
    listed = Path(__file__).parents[2] / "sql" / "schema" / "tables" / "error_codes.sql"
    codes = set(re.findall(r"'(PS\d{3})'", listed.read_text(encoding="utf-8")))
    assert codes == {code for code in BY_SQLSTATE if code.startswith("PS")}
