"""Run a call on a connection that the caller opened, inside the transaction that is open there.

Taken are connections of psycopg, asyncpg and SQLAlchemy (Core connections and ORM sessions), and
anything that speaks Python's DB-API with `%s`, such as psycopg2's or Django's.  Each is recognised
by the module of its class: nothing is imported that the caller has not imported already.

Nothing is retried here: whether to run the transaction again is its owner's decision.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

import psycopg
from psycopg.rows import tuple_row

from penstock import errors
from penstock.postgres.call import explained
from penstock.postgres.faults import Overdue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.postgres.call import Call, Row

T = TypeVar("T")


class Kind(Enum):
    """The library that a connection belongs to."""

    PSYCOPG = auto()
    PSYCOPG_ASYNC = auto()
    ASYNCPG = auto()
    SQLALCHEMY = auto()
    SQLALCHEMY_ASYNC = auto()
    DBAPI = auto()


def recognise(connection: Any) -> Kind:
    """The library of a connection; raises UnusableConnection for a library that is not known."""
    if isinstance(connection, psycopg.AsyncConnection):
        return Kind.PSYCOPG_ASYNC
    if isinstance(connection, psycopg.Connection):
        return Kind.PSYCOPG
    packages = {each.__module__.partition(".")[0] for each in type(connection).__mro__}
    if "asyncpg" in packages and hasattr(connection, "fetch"):
        return Kind.ASYNCPG
    if "sqlalchemy" in packages and _runs_statements(connection):
        return Kind.SQLALCHEMY_ASYNC if _is_async(connection) else Kind.SQLALCHEMY
    if callable(getattr(connection, "cursor", None)) and "sqlalchemy" not in packages:
        return Kind.DBAPI
    raise errors.UnusableConnection(
        f"connection= is a {type(connection).__qualname__}: give an open connection of psycopg, "
        "asyncpg or SQLAlchemy, or a SQLAlchemy session (not an engine or a pool)"
    )


def _runs_statements(connection: Any) -> bool:
    return hasattr(connection, "exec_driver_sql") or callable(
        getattr(connection, "connection", None)
    )


def _is_async(connection: Any) -> bool:
    return any(
        each.__module__.startswith("sqlalchemy.ext.asyncio") for each in type(connection).__mro__
    )


def run_sync(connection: Any, call: Call[T]) -> T:
    """Run the call there; for blocking callers."""
    kind = recognise(connection)
    try:
        match kind:
            case Kind.PSYCOPG:
                with connection.cursor(row_factory=tuple_row) as cursor:
                    cursor.execute(call.sql, call.parameters)
                    return call.read(cursor.fetchall())
            case Kind.DBAPI:
                with connection.cursor() as cursor:
                    cursor.execute(call.sql, call.parameters)
                    return call.read(_tuples(cursor.fetchall()))
            case Kind.SQLALCHEMY:
                core = _core(connection)
                found = core.exec_driver_sql(*_statement(core, call))
                return call.read(_tuples(found.fetchall()))
            case Kind.PSYCOPG_ASYNC | Kind.ASYNCPG | Kind.SQLALCHEMY_ASYNC:
                raise errors.UnusableConnection(
                    f"connection= is a {type(connection).__qualname__}, which has to be awaited: "
                    "use the client of penstock.connect() with it"
                )
            case _:
                assert_never(kind)
    except Exception as problem:
        raise _translated(problem, call) from problem


async def run_async(connection: Any, call: Call[T]) -> T:
    """Run the call there; a connection that can't be awaited blocks, as it does for its owner."""
    kind = recognise(connection)
    try:
        match kind:
            case Kind.PSYCOPG | Kind.DBAPI | Kind.SQLALCHEMY:
                return run_sync(connection, call)
            case Kind.PSYCOPG_ASYNC:
                async with connection.cursor(row_factory=tuple_row) as cursor:
                    await cursor.execute(call.sql, call.parameters)
                    return call.read(await cursor.fetchall())
            case Kind.ASYNCPG:
                found = await connection.fetch(dollars(call.sql), *call.parameters)
                return call.read(_tuples(found))
            case Kind.SQLALCHEMY_ASYNC:
                core = await _core_async(connection)
                result = await core.exec_driver_sql(*_statement(core, call))
                return call.read(_tuples(result.fetchall()))
            case _:
                assert_never(kind)
    except Exception as problem:
        raise _translated(problem, call) from problem


def _core(connection: Any) -> Any:
    """A session's connection, in the session's transaction; a connection as it is."""
    return connection if hasattr(connection, "exec_driver_sql") else connection.connection()


async def _core_async(connection: Any) -> Any:
    return connection if hasattr(connection, "exec_driver_sql") else await connection.connection()


def _statement(core: Any, call: Call[T]) -> tuple[str, tuple[object, ...]]:
    dialect = core.dialect
    if dialect.name != "postgresql":
        raise errors.UnusableConnection(
            f"connection= leads to {dialect.name}; Penstock lives in PostgreSQL"
        )
    numbered = dialect.driver == "asyncpg"
    return (dollars(call.sql) if numbered else call.sql), call.parameters


def dollars(sql: str) -> str:
    """The text of a call with numbered parameters, as asyncpg wants it."""
    numbers = itertools.count(1)
    return re.sub("%s", lambda _: f"${next(numbers)}", sql)


def _tuples(rows: Iterable[Any]) -> Sequence[Row]:
    # Cursors may have been made to give mappings; the order of their columns is ours.
    return [tuple(row.values() if isinstance(row, Mapping) else row) for row in rows]


def _translated(problem: Exception, call: Call[Any]) -> Exception:
    """Penstock's error where the database refused; anything else as it is."""
    meaning = _meaning(problem)
    return explained(meaning, call) if isinstance(meaning, errors.PenstockError) else meaning


def _meaning(problem: Exception) -> Exception:
    if isinstance(problem, Overdue):
        return errors.CallTimeout(f"{problem}: the transaction can't go on, begin it again")
    if isinstance(problem, psycopg.Error):
        return errors.translate(problem)
    if isinstance(problem, UnicodeEncodeError):
        return errors.unsendable()
    for each in _causes(problem):
        if isinstance(each, psycopg.Error):
            return errors.translate(each)
        code = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if isinstance(code, str):
            return errors.refusal(code, _message(each), _hint(each))
    return problem


def _causes(problem: BaseException) -> Iterable[BaseException]:
    """The error, the driver's under SQLAlchemy's, and what those came from."""
    seen: list[BaseException] = []
    found: BaseException | None = problem
    while found is not None and found not in seen:
        seen.append(found)
        found = getattr(found, "orig", None) or found.__cause__
    return reversed(seen)


def _message(problem: BaseException) -> str:
    diagnosis = getattr(problem, "diag", None)
    return getattr(diagnosis, "message_primary", None) or str(problem)


def _hint(problem: BaseException) -> str | None:
    diagnosis = getattr(problem, "diag", None)
    return getattr(diagnosis, "message_hint", None) or getattr(problem, "hint", None)
