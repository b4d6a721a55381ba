"""The engine's SQL: where it is, what version it has, how it gets into a database.

`sql/` is written for psql.  Here its scripts are read with their `\\ir` lines expanded, so that
`penstock init` runs the very statements that `psql -f sql/install.sql` runs.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from penstock.errors import (
    INSTALL_ADVICE,
    Conflict,
    NotInstalled,
    PenstockError,
    WrongSchemaVersion,
    translate,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPECTED_VERSION = 1
EXPECTED_REVISION = 1
VERSION_QUERY = "select penstock.schema_version()"
REVISION_QUERY = "select penstock.schema_revision()"
FINGERPRINT_QUERY = "select penstock.schema_fingerprint()"
# Scripts change more often than the version that clients ask for: this tells one text from another.
_STAMP = sql.SQL(
    "create or replace function penstock.schema_fingerprint() returns text"
    " language sql immutable as {body};"
)

_PACKAGE = Path(__file__).resolve().parent
_TRANSACTION = ("begin;", "commit;")
_DEADLOCK = "40P01"
# So many deadlocks are overcome; the next one is raised.
_DEADLOCKS = 4


def folder() -> Path:
    """The folder of the engine's SQL: inside an installed package, or beside `src/`."""
    for candidate in (_PACKAGE / "sql", _PACKAGE.parents[1] / "sql"):
        if (candidate / "install.sql").is_file():
            return candidate
    raise PenstockError("the engine's SQL files are missing: reinstall the penstock package")


def script(name: str) -> str:
    """The text of a script such as "install.sql", as one transaction's worth of plain SQL.

    Includes are expanded; psql's own commands, and the begin and commit that psql needs, are left
    out: the caller has a transaction.
    """
    path = folder() / name
    # An indented one belongs to the body of a procedure.
    return "".join(line for line in _lines(path, ()) if line.rstrip().lower() not in _TRANSACTION)


def _lines(path: Path, including: tuple[Path, ...]) -> Iterator[str]:
    path = path.resolve()
    if path in including:
        raise PenstockError(f"{path.name} includes itself")
    for line in path.read_text(encoding="utf-8").splitlines():
        match line.split():
            case ["\\ir" | "\\include_relative", target]:
                yield from _lines(path.parent / target.strip("'"), (*including, path))
            case [word, *_] if word.startswith("\\"):
                continue
            case _:
                yield line + "\n"


def install(conn: psycopg.Connection[Any]) -> None:
    """Install the engine, or bring an older one up to this version; all of it or nothing.

    A migration locks tables that calls have locked in another order.  When the server ends the
    installation to resolve such a deadlock, it is repeated, unless the caller's transaction is
    open: that one holds locks which only its end frees.
    """
    body = sql.SQL("select {}").format(sql.Literal(fingerprint())).as_string(conn)
    stamp = _STAMP.format(body=sql.Literal(body)).as_string(conn)
    statements = script("install.sql") + stamp
    repeatable = conn.info.transaction_status == TransactionStatus.IDLE
    for _ in range(_DEADLOCKS if repeatable else 0):
        try:
            return _run(conn, statements)
        except Conflict as problem:
            if problem.code != _DEADLOCK:
                raise
    return _run(conn, statements)


def follow(conn: psycopg.Connection[Any]) -> bool:
    """Install unless the engine is of these very scripts, or of a newer version; whether it did.

    For a database that is ours alone: elsewhere its owner says when it changes.
    """
    version = installed_version(conn) or 0
    if version > EXPECTED_VERSION:
        return False
    if version == EXPECTED_VERSION and installed_fingerprint(conn) == fingerprint():
        return False
    install(conn)
    return True


def uninstall(conn: psycopg.Connection[Any]) -> None:
    """Remove the engine and every message in it."""
    _run(conn, script("uninstall.sql"))


def _run(conn: psycopg.Connection[Any], statements: str) -> None:
    try:
        with conn.transaction():
            conn.execute(statements.encode())
    except psycopg.Error as exc:
        raise translate(exc) from exc


@cache
def fingerprint() -> str:
    """What names the engine's scripts as they are in this package."""
    return sha256(script("install.sql").encode()).hexdigest()[:16]


def installed_version(conn: psycopg.Connection[Any]) -> int | None:
    """The version of the engine in this database; None when there is none."""
    version: int | None = _ask(conn, VERSION_QUERY)
    return version


def installed_revision(conn: psycopg.Connection[Any]) -> int:
    """The revision of the engine's public functions; 0: it is older than revisions are."""
    revision: int | None = _ask(conn, REVISION_QUERY)
    return revision or 0


def installed_fingerprint(conn: psycopg.Connection[Any]) -> str | None:
    """The fingerprint of the scripts that installed the engine; None when psql ran them."""
    found: str | None = _ask(conn, FINGERPRINT_QUERY)
    return found


def _ask(conn: psycopg.Connection[Any], query: LiteralString) -> Any:
    """The one value of a query; None where the function is missing."""
    try:
        with conn.transaction():
            row = conn.execute(query).fetchone()
    except (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedFunction):
        return None
    except psycopg.Error as exc:
        raise translate(exc) from exc
    return None if row is None else next(iter(_values(row)))


def _values(row: Any) -> Any:
    # A connection may have been opened with rows as mappings.
    return row.values() if hasattr(row, "values") else row


def check(conn: psycopg.Connection[Any]) -> None:
    """Raise unless the database has an engine that this package works with."""
    require_expected(installed_version(conn))
    require_revision(installed_revision(conn))


def require_revision(revision: int) -> None:
    """Raise unless the engine has all functions that this package calls."""
    if revision < EXPECTED_REVISION:
        raise WrongSchemaVersion(
            f"the engine in this database is older than this package (revision {revision}, needed "
            f"is {EXPECTED_REVISION}): {INSTALL_ADVICE} to bring it up to date"
        )


def require_expected(version: int | None) -> None:
    """Raise unless `version` is the one that this package works with."""
    if version is None:
        raise NotInstalled(f"this database has no Penstock engine: {INSTALL_ADVICE}")
    if version < EXPECTED_VERSION:
        raise WrongSchemaVersion(_differ(version, f"{INSTALL_ADVICE} to bring it up to date"))
    if version > EXPECTED_VERSION:
        raise WrongSchemaVersion(_differ(version, "upgrade the penstock package on this machine"))


def _differ(version: int, cure: str) -> str:
    return (
        f"the engine in this database has version {version}, "
        f"this package works with version {EXPECTED_VERSION}: {cure}"
    )
