"""One LISTEN connection for all queues: what wakes whom, and how the line mends itself."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.client import calls
from penstock.postgres._async.concurrency import sleep
from penstock.postgres._async.database import Database as Connections
from penstock.postgres._async.listener import Listener, Watch
from penstock.postgres.session import ListenerTimes, Reach
from penstock.settings import Settings
from tests.fixtures.patience import eventually_async
from tests.fixtures.proxy import Way

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fixtures.databases import Database
    from tests.fixtures.pgbouncer import Pgbouncer
    from tests.fixtures.proxy import Proxy

# A minute is as good as for ever here: a test that needs it fails.
LONG = 60.0
BILLING = calls.channel("billing")
SHIPPING = calls.channel("shipping")
QUICK = ListenerTimes(heartbeat=0.1, patience=0.3, first_delay=0.01, longest_delay=0.05)
# Nothing but a broken connection ends this line.
PATIENT = ListenerTimes(heartbeat=LONG, patience=LONG, first_delay=0.01, longest_delay=0.05)

Session = psycopg.Connection[Any]


@asynccontextmanager
async def listening(
    dsn: str, times: ListenerTimes = PATIENT, **settings: Any
) -> AsyncIterator[Listener]:
    connections = Connections(Settings(dsn=dsn, **settings))
    await connections.open()
    listener = Listener(connections, times)
    try:
        yield listener
    finally:
        await listener.close()
        await connections.close()


async def hearing(watch: Watch) -> None:
    """Until its queue is listened to, and nothing is left to be noticed."""
    await eventually_async(lambda: watch.reach is Reach.HEARING)
    await watch.wait(0)


@pytest.fixture
def db(db: Session) -> Session:
    for queue in ("billing", "shipping"):
        db.execute("select penstock.create_queue(%s, 'orders', notify => 'always')", (queue,))
    return db


def notify(db: Session, queue: str) -> None:
    db.execute("select pg_notify(penstock.queue_channel(%s), '1')", (queue,))


def backends(db: Session) -> list[int]:
    """The sessions that have said LISTEN, or were asked whether they live."""
    found = db.execute(
        "select pid from pg_stat_activity where datname = current_database()"
        " and (query ilike 'listen%' or query = 'select 1')"
    )
    return [pid for (pid,) in found]


def terminate(db: Session, pid: int) -> None:
    db.execute("select pg_terminate_backend(%s)", (pid,))


async def test_notification_wakes_the_watches_of_its_queue_and_no_other(
    database: Database, db: Session
) -> None:
    async with (
        listening(database.dsn) as listener,
        listener.watch(BILLING) as first,
        listener.watch(BILLING) as second,
        listener.watch(SHIPPING) as other,
    ):
        for watch in (first, second, other):
            await hearing(watch)
        notify(db, "billing")
        assert await first.wait(LONG)
        assert await second.wait(LONG)
        assert not await other.wait(0)


async def test_watch_is_woken_once_listen_is_in_force(database: Database, db: Session) -> None:
    async with (
        listening(database.dsn) as listener,
        listener.watch(BILLING) as watch,
    ):
        assert await watch.wait(LONG)
        assert watch.reach is Reach.HEARING


async def test_notification_between_two_waits_is_not_missed(
    database: Database, db: Session
) -> None:
    async with (
        listening(database.dsn) as listener,
        listener.watch(BILLING) as watch,
        listener.watch(SHIPPING) as other,
    ):
        await hearing(watch)
        await hearing(other)
        notify(db, "billing")
        notify(db, "shipping")
        assert await other.wait(LONG)
        assert await watch.wait(0)
        assert not await watch.wait(0)


async def test_publishing_wakes_a_watch(database: Database, db: Session) -> None:
    async with (
        listening(database.dsn) as listener,
        listener.watch(BILLING) as watch,
    ):
        await hearing(watch)
        db.execute("select penstock.publish_message('orders', '1')")
        assert await watch.wait(LONG)


async def test_all_queues_share_one_connection(database: Database, db: Session) -> None:
    async with (
        listening(database.dsn) as listener,
        listener.watch(BILLING) as first,
        listener.watch(SHIPPING) as second,
    ):
        await hearing(first)
        await hearing(second)
        assert len(backends(db)) == 1


async def test_queue_that_nobody_watches_any_more_is_not_listened_to(
    database: Database, db: Session
) -> None:
    async with (
        listening(database.dsn) as listener,
        listener.watch(BILLING) as stays,
    ):
        async with listener.watch(SHIPPING) as leaves:
            await hearing(leaves)
            await hearing(stays)
        await eventually_async(lambda: listener._in_force == {"queue:billing"})
        notify(db, "billing")
        assert await stays.wait(LONG)


async def test_closing_ends_the_connection(database: Database, db: Session) -> None:
    async with (
        listening(database.dsn) as listener,
        listener.watch(BILLING) as watch,
    ):
        await hearing(watch)
        assert backends(db)
    await eventually_async(lambda: not backends(db))


async def test_strange_names_are_listened_to(database: Database, db: Session) -> None:
    name = 'a "quoted"; listen x; ' + "ü" * 150
    async with listening(database.dsn) as listener, listener.watch(calls.channel(name)) as watch:
        await hearing(watch)
        notify(db, name)
        assert await watch.wait(LONG)


async def test_terminated_connection_is_replaced_and_everyone_looks(
    database: Database, db: Session
) -> None:
    async with (
        listening(database.dsn) as listener,
        listener.watch(BILLING) as first,
        listener.watch(SHIPPING) as second,
    ):
        await hearing(first)
        await hearing(second)
        [old] = backends(db)
        terminate(db, old)
        assert await first.wait(LONG)
        assert await second.wait(LONG)
        await hearing(first)
        await hearing(second)
        assert old not in backends(db)
        notify(db, "shipping")
        assert await second.wait(LONG)


async def test_watch_knows_while_it_can_not_be_woken(proxy: Proxy, db: Session) -> None:
    async with listening(proxy.dsn) as listener, listener.watch(BILLING) as watch:
        await hearing(watch)
        proxy.refusing = True
        proxy.cut()
        await eventually_async(lambda: watch.reach is Reach.NOT_YET)
        proxy.heal()
        await hearing(watch)
        notify(db, "billing")
        assert await watch.wait(LONG)


async def test_half_open_connection_is_noticed(proxy: Proxy, db: Session) -> None:
    async with (
        listening(proxy.dsn, QUICK) as listener,
        listener.watch(BILLING) as watch,
    ):
        await hearing(watch)
        connections = proxy.accepted
        proxy.half_open()
        assert await watch.wait(LONG)
        await eventually_async(lambda: proxy.accepted > connections)
        await hearing(watch)
        notify(db, "billing")
        assert await watch.wait(LONG)


@pytest.mark.parametrize("way", [Way.TO_SERVER, Way.TO_CLIENT])
async def test_black_hole_in_one_direction_is_noticed(proxy: Proxy, db: Session, way: Way) -> None:
    async with (
        listening(proxy.dsn, QUICK) as listener,
        listener.watch(BILLING) as watch,
    ):
        await hearing(watch)
        proxy.swallowed = way
        await eventually_async(lambda: watch.reach is Reach.NOT_YET)
        proxy.heal()
        await hearing(watch)
        notify(db, "billing")
        assert await watch.wait(LONG)


async def test_quiet_line_that_lives_is_asked_and_kept(proxy: Proxy, db: Session) -> None:
    beats: set[Any] = set()

    def note_beat() -> int:
        found = db.execute("select pid, query_start from pg_stat_activity where query = 'select 1'")
        beats.update(found.fetchall())
        return len(beats)

    async with (
        listening(proxy.dsn, QUICK) as listener,
        listener.watch(BILLING) as watch,
    ):
        await hearing(watch)
        connections = proxy.accepted
        await eventually_async(lambda: note_beat() >= 4)
        assert proxy.accepted == connections
        assert len({pid for pid, _ in beats}) == 1


async def test_answers_that_come_byte_by_byte_are_understood(proxy: Proxy, db: Session) -> None:
    proxy.drip = 1
    async with listening(proxy.dsn) as listener, listener.watch(BILLING) as watch:
        await hearing(watch)
        notify(db, "billing")
        assert await watch.wait(LONG)


async def test_watch_that_joins_while_the_line_is_down_is_served_later(
    proxy: Proxy, db: Session
) -> None:
    async with listening(proxy.dsn) as listener, listener.watch(BILLING) as first:
        await hearing(first)
        proxy.refusing = True
        terminate(db, backends(db)[0])
        await eventually_async(lambda: first.reach is Reach.NOT_YET)
        async with listener.watch(SHIPPING) as second:
            proxy.heal()
            await hearing(second)
            notify(db, "shipping")
            assert await second.wait(LONG)


async def test_watch_that_joins_while_the_server_is_being_asked_is_served_at_once(
    proxy: Proxy, db: Session
) -> None:
    # Nothing else wakes this listener: a ring that is lost is lost for good.
    deaf = ListenerTimes(heartbeat=100 * LONG, patience=LONG)
    async with (
        listening(proxy.dsn, deaf) as listener,
        listener.watch(BILLING) as first,
    ):
        await hearing(first)
        proxy.delay = 0.3
        async with listener.watch(SHIPPING) as second:
            # Its LISTEN is on its way by now, and held up in the proxy.
            await sleep(0.05)
            third = Watch(listener, "third")
            listener._subscriptions.add("queue:third", third)
            listener._doorbell.ring()
            await hearing(second)
            await hearing(third)


async def test_pooler_that_shares_sessions_is_recognised(
    pgbouncer: Pgbouncer, database: Database, db: Session
) -> None:
    async with (
        listening(pgbouncer.dsn(database.name)) as listener,
        listener.watch(BILLING) as watch,
    ):
        assert await watch.wait(LONG)
        assert watch.reach is Reach.DEAF
        assert (
            db.execute(
                "select 1 from pg_stat_activity where query ilike 'listen%'"
                " and datname = current_database()"
            ).fetchall()
            == []
        )


async def test_no_connection_is_made_where_the_settings_name_a_pooler(
    pgbouncer: Pgbouncer, database: Database, db: Session
) -> None:
    async with (
        listening(pgbouncer.dsn(database.name), pooler=True) as listener,
        listener.watch(BILLING) as watch,
    ):
        assert watch.reach is Reach.DEAF
        assert not await watch.wait(0)
