"""Where it runs: a private server that also listens on loopback, a database, and a session."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from bench.server import SUPERUSER, Server, running
from penstock import schema
from penstock.spark import session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

JAR = Path("/usr/share/java/postgresql.jar")
PACKAGE = "libpostgresql-jdbc-java"
TOPIC = "orders"

# What a message is, for both: some two hundred bytes.
ROWS = """
select string(id % 1000) as key,
    concat('{"order": ', id, ', "customer": ', id % 1000, ', "note": "', repeat('x', 140), '"}')
        as value
from numbers
"""
# The log's own columns and indexes, so that both pay for the same.
JDBC_TABLE = """
create table jdbc_log (
    xid xid8 not null default pg_current_xact_id(), id bigint generated always as identity,
    topic_id bigint not null default 1, published_at timestamptz not null default clock_timestamp(),
    segment int not null default 1, priority int not null default 0, deliver_after timestamptz,
    expires_at timestamptz, flagged boolean not null default false, key text, correlation_id text,
    tenant_id text, dedupe_key text, value jsonb not null, headers jsonb);
create index on jdbc_log (topic_id, xid, id);
create index on jdbc_log (topic_id, id);
create index on jdbc_log (topic_id, xid, id) where flagged;
"""


class Missing(Exception):
    """Something to compare with can't be had; the text says what."""


@dataclass(frozen=True, slots=True)
class Place:
    """One run's server and session."""

    spark: SparkSession
    server: Server
    port: int
    scratch: Path

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/spark"

    def jdbc(self, **more: str) -> dict[str, str]:
        """Options of Spark's JDBC source and sink."""
        url = f"jdbc:postgresql://127.0.0.1:{self.port}/spark?reWriteBatchedInserts=true"
        return {
            "url": f"{url}&stringtype=unspecified",
            "user": SUPERUSER,
            "driver": "org.postgresql.Driver",
            **more,
        }

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.server.dsn("spark"), autocommit=True)

    def fresh(self) -> None:
        """An empty database with the engine and the table for JDBC."""
        self.server.drop_database("spark")
        self.server.create_database("spark")
        with psycopg.connect(self.server.dsn("spark")) as conn:
            schema.install(conn)
            conn.execute(JDBC_TABLE.encode())
            conn.execute("select penstock.create_topic(%s)", (TOPIC,))

    def fill(self, number: int, first: int = 0) -> None:
        """Publish messages of the usual size, quickly."""
        with self.connect() as conn:
            for low in range(first, first + number, 50_000):
                count = min(50_000, first + number - low)
                conn.execute(
                    "select count(*) from penstock.publish_messages(%s, (select array_agg("
                    "jsonb_build_object('order', n, 'customer', n %% 1000, 'note', "
                    "repeat('x', 140)) order by n) from generate_series(%s::bigint, %s) n), "
                    "keys => (select array_agg((n %% 1000)::text order by n) "
                    "from generate_series(%s::bigint, %s) n))",
                    (TOPIC, low + 1, low + count, low + 1, low + count),
                )
            conn.execute("vacuum analyze penstock_data.messages")

    def numbers(self, count: int, partitions: int = 4) -> None:
        """The rows to write, as a view that both sinks read."""
        self.spark.range(1, count + 1, 1, partitions).createOrReplaceTempView("numbers")


def driver_jar() -> Path:
    """Debian's JDBC driver, installed when that is possible."""
    if not JAR.exists() and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(
            ["apt-get", "install", "-qq", "-y", "--no-install-recommends", PACKAGE],
            stdout=subprocess.DEVNULL,
            check=False,
        )
    if not JAR.exists():
        raise Missing(f"there is no {JAR}: install the package {PACKAGE}")
    return JAR


@contextmanager
def place(pg: str, master: str, scratch: Path) -> Iterator[Place]:
    """Start everything; the session is warmed up by the first, uncounted, round."""
    jar = driver_jar()
    with running(pg) as server:
        port = _listening(server)
        spark = session(master, name="bench", settings={"spark.jars": str(jar), **_QUIET})
        try:
            made = Place(spark, server, port, scratch)
            made.fresh()
            yield made
        finally:
            spark.stop()


_QUIET = {"spark.log.level": "FATAL", "spark.driver.memory": "2g"}


def _listening(server: Server) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with server.admin() as conn:
        conn.execute("alter system set listen_addresses = '127.0.0.1'")
        conn.execute(f"alter system set port = {port}".encode())
    server.command("pg_ctl", "-D", str(server.home / "data"), "-w", "-m", "fast", "restart")
    os.environ["PGPORT"] = str(port)
    return port
