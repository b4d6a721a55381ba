"""Looks for planted secrets where they have no business: logs, traces, errors, process titles."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Self

import psutil
import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_LOOK_SECONDS = 0.1


class Titles(threading.Thread):
    """Looks at the command lines of all our processes and at the queries of all sessions."""

    def __init__(self, dsn: str, secrets: Iterable[str], pids: Iterable[int]) -> None:
        super().__init__(daemon=True)
        self._dsn, self._secrets, self._roots = dsn, tuple(secrets), tuple(pids)
        self._ended = threading.Event()
        self.found: Counter[str] = Counter()
        self.looks = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.is_set():
            for title in self._titles():
                self.looks += 1
                for secret in self._secrets:
                    if secret in title:
                        self.found[f"{secret} in {title[:150]}"] += 1
            time.sleep(_LOOK_SECONDS)

    def _titles(self) -> Iterable[str]:
        for process in _family(self._roots):
            try:
                yield " ".join(process.cmdline())
            except psutil.Error:
                continue
        try:
            with psycopg.connect(self._dsn, autocommit=True, application_name="titles") as db:
                for query, name in db.execute(
                    "select query, application_name from pg_stat_activity"
                ).fetchall():
                    yield f"{query} {name}"
        except psycopg.Error:
            # Its connection was cut with all the others.
            return


def _family(roots: Iterable[int]) -> list[psutil.Process]:
    found = []
    for pid in roots:
        try:
            root = psutil.Process(pid)
            found += [root, *root.children(recursive=True)]
        except psutil.Error:
            continue
    return found


def search(files: Iterable[Path], secrets: Iterable[str]) -> list[str]:
    """The secrets that stand in a file, each with the line."""
    found = []
    wanted = tuple(secrets)
    for file in files:
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            found += [f"{file.name}: {each}: {line[:300]}" for each in wanted if each in line]
    return found
