"""Words for races: what sessions do, and how a test knows that one of them waits."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import psycopg

    Session = psycopg.Connection[Any]

T = TypeVar("T")
PATIENCE_SECONDS = 60

# Every way to read a topic's log.  A filtered queue is standard, but not straight from the log.
QUEUES = {
    "standard": {},
    "fifo": {"ordering": "fifo"},
    "fair": {"ordering": "fair"},
    "filtered": {"filter": '{"headers": {"for": "me"}}'},
}
SINCE = {"since": {"start_at": "2000-01-01"}}
READER = "reader"
_tokens = itertools.count(1)
_keys = itertools.count(1)


def value(conn: Session, statement: str, *given: Any) -> Any:
    """The one value of a statement."""
    row = conn.execute(statement.encode(), given).fetchone()
    return None if row is None else row[0]


def values(conn: Session, statement: str, *given: Any) -> list[Any]:
    """The first column of a statement."""
    return [row[0] for row in conn.execute(statement.encode(), given)]


def call(conn: Session, function: str, *given: Any, **named: Any) -> Any:
    """The value of one of the engine's functions."""
    words = ["%s"] * len(given) + [f"{name} => %s" for name in named]
    return value(conn, f"select penstock.{function}({', '.join(words)})", *given, *named.values())


def short_waits(db: Session) -> None:
    """A claim waits for the claim lock no longer than this; what waits for another lock fails."""
    call(db, "configure", "lock_wait", "5 milliseconds")
    db.execute(f"alter database {db.info.dbname} set lock_timeout = '10s'".encode())


def forget(conn: Session) -> None:
    """As if this session had not claimed yet."""
    names = ["beside", "slice", "ahead"]
    conn.execute(
        "select set_config('penstock.' || name, '', false) from unnest(%s::text[]) name", (names,)
    )


def create(conn: Session, kind: str = "standard", name: str = "q", **options: Any) -> None:
    """A queue or a reader of the topic "q", by the kind of its reading."""
    if kind == READER:
        call(conn, "create_topic", "q")
        call(conn, "create_reader", name, "q")
    else:
        call(conn, "create_queue", name, "q", **(QUEUES | SINCE)[kind], **options)


def publish(conn: Session, **options: Any) -> int:
    """One message for the topic "q"; every kind of queue lets it pass."""
    return int(call(conn, "publish_message", "q", "{}", headers='{"for": "me"}', **options))


def publish_many(conn: Session, count: int) -> list[int]:
    """Messages of different keys, so that fifo queues can deliver them at once."""
    statement = """
        select penstock.publish_messages('q', %s::jsonb[], headers => array[%s::jsonb], keys => %s)
    """
    keys = [f"key-{next(_keys)}" for _ in range(count)]
    return values(conn, statement, ["{}"] * count, '{"for": "me"}', keys)


def token() -> str:
    return f"token-{next(_tokens)}"


def claim(
    conn: Session, size: int = 100, *, holder: str = "t", seconds: int = 30, name: str = "q"
) -> list[int]:
    """The ids that a claim gets."""
    statement = "select message_id from penstock.consume_messages_batch(%s, %s, %s, %s)"
    return values(conn, statement, name, holder, seconds, size)


def ack(conn: Session, ids: Iterable[int], *, holder: str = "t", name: str = "q") -> list[int]:
    """The ids that could be acked."""
    return values(conn, "select penstock.ack_messages(%s, %s, %s)", name, list(ids), holder)


def read(conn: Session, size: int = 100, name: str = "q") -> list[int]:
    """The ids that a reader gets, and commits."""
    ids = values(conn, "select message_id from penstock.read_window(%s, %s)", name, size)
    assert not ids or call(conn, "commit_window", name, ids[-1])
    return ids


def take(conn: Session, kind: str, size: int = 100) -> list[int]:
    """What one look finds: claimed and acked, or read and committed."""
    if kind == READER:
        return read(conn, size)
    holder = token()
    ids = claim(conn, size, holder=holder)
    assert sorted(ack(conn, ids, holder=holder)) == sorted(ids)
    return ids


def drain(conn: Session, kind: str = "standard", size: int = 100) -> list[int]:
    """All that is there, in the order of delivery."""
    found: list[int] = []
    while ids := take(conn, kind, size):
        found += ids
    return found


def pid(conn: Session) -> int:
    return conn.info.backend_pid


class Background(Generic[T]):
    """Something a session does in a thread of its own, because it may have to wait."""

    def __init__(self, work: Callable[..., T], *given: Any) -> None:
        self._work = work
        self._given = given
        self._result: T
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work(*self._given)
        except BaseException as exc:  # noqa: BLE001 - handed to whoever asks for the result
            self._error = exc

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> T:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "still waiting"
        if self._error is not None:
            raise self._error
        return self._result


def waits(observer: Session, conn: Session) -> bool:
    """Does this session wait for a lock?"""
    return bool(
        value(
            observer,
            "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s",
            pid(conn),
        )
    )


def in_background(observer: Session, conn: Session, work: Callable[[], T]) -> Background[T]:
    """Start something that must wait for another session, and return once it does."""
    started = Background(work)
    until(lambda: waits(observer, conn) or not started.running)
    assert started.running, f"did not have to wait: {started.result()}"
    return started


def until(condition: Callable[[], object]) -> None:
    """Return as soon as something holds; it must within reason."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.002)


@dataclass
class Traffic:
    """What sessions published and committed until a moment, and what was delivered and acked."""

    ends_at: float
    published: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.ends_at

    @property
    def faults(self) -> tuple[int, int, int]:
        """Messages lost, delivered and not published, and delivered twice."""
        published, delivered = set(self.published), set(self.delivered)
        twice = len(self.delivered) - len(delivered)
        return len(published - delivered), len(delivered - published), twice
