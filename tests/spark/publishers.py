"""Publishers that commit out of order: quick ones, slow ones, and some that roll back."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import Any

import psycopg


@dataclass(slots=True)
class Publishers:
    """Threads that publish numbers, and what they know to be published."""

    url: str
    topic: str = "orders"
    done: set[int] = field(default_factory=set)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, number: int = 4, pause: float = 0.01) -> None:
        for first in range(number):
            words = (first * 10_000_000, pause, random.Random(first))
            self._threads.append(threading.Thread(target=self._run, args=words))
            self._threads[-1].start()

    def stop(self) -> set[int]:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self.done

    def _run(self, first: int, pause: float, luck: random.Random) -> None:
        value = first
        with psycopg.connect(self.url) as conn:
            while not self._stop.is_set():
                sent = [value := value + 1 for _ in range(luck.randint(1, 20))]
                self._publish(conn, sent)
                # Held open for a while, so that others with later ids commit first.
                self._stop.wait(luck.random() * pause * luck.choice((1, 1, 20)))
                if luck.random() < 0.15:
                    conn.rollback()
                else:
                    conn.commit()
                    self.done.update(sent)

    def _publish(self, conn: psycopg.Connection[Any], numbers: list[int]) -> None:
        for each in numbers:
            conn.execute("select penstock.publish_message(%s, %s::jsonb)", (self.topic, str(each)))
