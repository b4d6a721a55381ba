"""A pipeline's state between runs: a folder with its ledger, or with Spark's checkpoint.

A run of the same pipeline with the same state continues where the last run ended.  One run at a
time: a second one would do the same batches.

The ledger is work in numbered chunks, each done once: first the plan is written, then the chunk,
then a mark.  The target of a chunk stores (identity, number) in the same transaction as the rows.
So a run that ends anywhere continues at the first chunk without a mark, and a chunk that was
written but not marked is found to be written already.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from penstock.errors import InvalidSetting
from penstock.settings import Settings
from penstock.spark.lake.data_files import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyarrow.fs import FileSystem


class State:
    """A folder of this machine, or the URI of one elsewhere."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")

    @property
    def is_remote(self) -> bool:
        return "://" in self.location

    @property
    def folder(self) -> Path:
        if self.is_remote:
            raise InvalidSetting(
                f"this pipeline keeps its ledger on this machine; --state {self.location} is remote"
            )
        return Path(self.location)

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps a stream's offsets."""
        return f"{self.location}/checkpoint"

    def has_checkpoint(self) -> bool:
        """Whether a stream has begun here: Spark notes the end of a batch before it reads it."""
        if self.is_remote:
            names = self._names_elsewhere("checkpoint/offsets")
        else:
            names = [path.name for path in Path(self.checkpoint, "offsets").glob("*")]
        return any(name.isdigit() for name in names)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep a second run of the same pipeline out; the lock ends with the process."""
        if self.is_remote:
            yield
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InvalidSetting(
                    f"another run of this pipeline has its state {self.location}: "
                    "end it first, or give this one a --state of its own"
                ) from None
            yield

    def read(self, name: str) -> Any:
        """A document of the state; None when there is none."""
        try:
            if self.is_remote:
                store, path = self._elsewhere(name)
                with store.open_input_file(path) as stream:
                    return json.loads(stream.read())
            return json.loads((self.folder / name).read_text())
        except FileNotFoundError:
            return None

    def write(self, name: str, document: Any) -> None:
        """Whole or not at all, and on the disk when this returns."""
        text = json.dumps(document, ensure_ascii=False)
        if self.is_remote:
            write_whole(*self._elsewhere(name), text.encode())
            return
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        with new.open("w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(path)

    def _elsewhere(self, name: str) -> tuple[FileSystem, str]:
        from pyarrow import fs  # noqa: PLC0415 - few keep their state elsewhere

        store, root = fs.FileSystem.from_uri(self.location)
        return store, f"{root}/{name}"

    def _names_elsewhere(self, folder: str) -> list[str]:
        from pyarrow import fs  # noqa: PLC0415 - few keep their state elsewhere

        store, path = self._elsewhere(folder)
        found = store.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return [each.base_name for each in found]

    def identity(self) -> str:
        """A name for this state: of a reader, or of the chunks that were written for it."""
        if self.is_remote:
            return hashlib.sha256(self.location.encode()).hexdigest()
        found = self.read("identity.json")
        if found is None:
            found = {"id": uuid.uuid4().hex}
            self.write("identity.json", found)
        return str(found["id"])


def default_location(pipeline: str, *marks: object) -> str:
    """The same arguments find the same state, wherever the command is run from."""
    digest = hashlib.sha256(json.dumps([str(mark) for mark in marks]).encode()).hexdigest()[:12]
    return str(_home() / "pipelines" / f"{pipeline}-{digest}")


def log_file() -> Path:
    """Where Spark's own log goes when a command starts it."""
    return _home() / "pipelines" / "spark.log"


def _home() -> Path:
    chosen = Settings.load().data_dir
    return chosen if chosen is not None else Path(platformdirs.user_data_dir("penstock"))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of work: its number, and what it is, as a JSON document."""

    number: int
    work: dict[str, Any]


class Ledger:
    """The chunks of one state: planned, and done with their results."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.app = f"penstock-{state.identity()}"

    def plan(self, work: dict[str, Any]) -> Chunk:
        """Write down the next chunk before it is begun."""
        number = self.planned()
        self._state.write(f"chunks/{number:08}.json", work)
        return Chunk(number, work)

    def planned(self) -> int:
        return sum(1 for _each in self._numbers("json"))

    def open(self) -> Iterator[Chunk]:
        """Planned chunks without a mark, the oldest first."""
        done = set(self._numbers("done"))
        for number in sorted(self._numbers("json")):
            if number not in done:
                yield Chunk(number, self._state.read(f"chunks/{number:08}.json"))

    def finish(self, chunk: Chunk, result: dict[str, Any]) -> None:
        self._state.write(f"chunks/{chunk.number:08}.done", result)

    def finished(self) -> Iterator[tuple[Chunk, dict[str, Any]]]:
        """What was done, and with what result."""
        for number in sorted(self._numbers("done")):
            work = self._state.read(f"chunks/{number:08}.json")
            yield Chunk(number, work), self._state.read(f"chunks/{number:08}.done")

    def _numbers(self, ending: str) -> Iterator[int]:
        folder = self._state.folder / "chunks"
        return (
            int(path.stem) for path in folder.glob(f"*.{ending}") if not path.name.startswith(".")
        )


def work_off(
    ledger: Ledger,
    do: Callable[[Chunk], dict[str, Any]],
    more: Callable[[], dict[str, Any] | None] = lambda: None,
) -> None:
    """Finish what is open, then plan and do chunks as long as there are more."""
    for chunk in ledger.open():
        ledger.finish(chunk, do(chunk))
    while (work := more()) is not None:
        chunk = ledger.plan(work)
        ledger.finish(chunk, do(chunk))
