"""Real sessions in every order: none of the anomalies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prove.interleavings.anomalies import ANOMALIES
from prove.interleavings.schedule import orders
from prove.interleavings.search import search
from prove.interleavings.slices import SLICES_IN_SHORT, BesideEachOther
from prove.sabotage import NO_LOCK, NO_SLICE_LOCK, NO_TOKEN_CHECK, NO_TURNS, rewrite

if TYPE_CHECKING:
    import psycopg

    from prove.interleavings.anomalies import Anomaly
    from tests.fixtures.databases import Connect


def test_every_order_is_there_once() -> None:
    found = list(orders(3, 4))
    assert len(found) == len(set(found)) == 35
    assert all(order.count(0) == 3 for order in found)
    assert len(set(orders(2, 2, 2))) == 90


@pytest.mark.parametrize(
    "anomaly", [*ANOMALIES, *SLICES_IN_SHORT], ids=lambda anomaly: anomaly.name
)
def test_no_order_does_harm(
    anomaly: Anomaly, db: psycopg.Connection[Any], connect: Connect
) -> None:
    searched = search(anomaly, db, (connect(), connect(), connect()))
    assert searched.played > 50
    assert not searched.found


@pytest.mark.parametrize("sabotage", [NO_TURNS, NO_LOCK], ids=["no turns", "no lock"])
def test_an_engine_that_is_broken_is_caught(
    sabotage: tuple[str, str], db: psycopg.Connection[Any], connect: Connect
) -> None:
    rewrite(db, *sabotage)
    assert any(search(anomaly, db, (connect(), connect())).found for anomaly in ANOMALIES)


def test_slices_without_their_lock_are_caught(
    db: psycopg.Connection[Any], connect: Connect
) -> None:
    rewrite(db, *NO_SLICE_LOCK)
    assert search(BesideEachOther(), db, (connect(), connect())).found


def test_sabotage_of_the_worker_death_part_still_has_its_place(db: psycopg.Connection[Any]) -> None:
    rewrite(db, *NO_TOKEN_CHECK)
    with pytest.raises(LookupError):
        rewrite(db, "no function has this", "")
