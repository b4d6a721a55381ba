"""The programme counts slices, and its rivals make the engine cut some."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg

import penstock.sync
from prove.actors.names import QUEUE, TOPIC
from prove.ledger import Step
from prove.servers import mortal
from prove.slices import Slices
from prove.stage import staged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.databases import Database

PATIENCE_SECONDS = 60


def within_reach(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_slices_are_counted_from_the_first_look_on(database: Database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as db:
        db.execute("select nextval('penstock_data.slice') from generate_series(1, 5)")
        with Slices(database.dsn) as slices:
            assert within_reach(lambda: slices.looks > 0)
            assert slices.cut == 0
            db.execute("select nextval('penstock_data.slice') from generate_series(1, 3)")
            assert within_reach(lambda: slices.cut == 3)


def test_count_goes_on_after_a_lost_session(database: Database) -> None:
    with (
        psycopg.connect(database.dsn, autocommit=True) as db,
        Slices(database.dsn) as slices,
    ):
        assert within_reach(lambda: slices.looks > 0)
        db.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
        db.execute("select nextval('penstock_data.slice') from generate_series(1, 3)")
        assert within_reach(lambda: slices.cut == 3)


def test_rivals_make_the_engine_cut_slices(tmp_path: Path) -> None:
    with mortal() as server, staged(server.dsn(), tmp_path) as stage:
        with penstock.sync.connect(stage.dsn) as mq:
            mq.publish_many(TOPIC, list(range(500)))
        rivals = stage.rivals(1)
        stage.close([], rivals)
        assert stage.slices["slices cut"] > 0
        delivered = [entry for entry in stage.entries() if entry.step is Step.DELIVERED]
        assert sorted(entry.number for entry in delivered) == list(range(500))
        assert {entry.place for entry in delivered} == {QUEUE}
        assert not stage.troubles
