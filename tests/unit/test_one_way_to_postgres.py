"""Only `penstock.postgres` opens connections to PostgreSQL."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import penstock

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(penstock.__file__).parent
OPENERS = {"connect", "connect_async"}
CLASSES = {"Connection", "AsyncConnection", "psycopg", "TimedConnection"}
POOLS = {"ConnectionPool", "AsyncConnectionPool", "NullConnectionPool", "AsyncNullConnectionPool"}


def openings(path: Path) -> Iterator[str]:
    """What opens a connection or a pool in a file: calls by name, and imports of a driver's own."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=call):
                if call in OPENERS and name in CLASSES:
                    yield f"{path}:{node.lineno}: {name}.{call}"
            case ast.ImportFrom(module="psycopg", names=names):
                for each in names:
                    if each.name == "connect":
                        yield f"{path}:{node.lineno}: from psycopg import connect"
            case ast.ImportFrom(module="psycopg_pool", names=names):
                for each in names:
                    if each.name in POOLS:
                        yield f"{path}:{node.lineno}: {each.name}"
            case ast.Import(names=names):
                for each in names:
                    if each.name in ("psycopg_pool", "psycopg2", "asyncpg"):
                        yield f"{path}:{node.lineno}: import {each.name}"


def test_only_the_package_postgres_opens_connections():
    found = [
        opening
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] != "postgres"
        for opening in openings(path)
    ]
    assert found == []


def test_an_opener_is_found_however_it_is_written(tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text(
        "import psycopg\n"
        "from psycopg import AsyncConnection, connect\n"
        "from psycopg_pool import ConnectionPool\n"
        "psycopg.connect('')\n"
        "AsyncConnection.connect('')\n"
        "psycopg.AsyncConnection.connect('')\n"
        "client.connect('')\n"
    )
    assert {each.partition(": ")[2] for each in openings(path)} == {
        "from psycopg import connect",
        "ConnectionPool",
        "psycopg.connect",
        "AsyncConnection.connect",
    }
