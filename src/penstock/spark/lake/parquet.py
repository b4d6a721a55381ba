"""Plain Parquet: folders `topic=…/day=…` that any tool reads.

Folders have no commits, so a small journal beside the data provides them: a batch is staged in a
hidden folder, its journal entry is written (that is the commit), and then the files are moved.  The
next process that opens the folder finishes the moves of an interrupted run.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs

from penstock.spark.lake import data_files
from penstock.spark.lake.data_files import write_whole
from penstock.spark.lake.lake_table import Compaction, Lake, Made, Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

_OWN = "_penstock"
_STAGED = f"{_OWN}/staged"
_SCHEMA = f"{_OWN}/schema.arrow"
# Journal entries kept per application once they are done.
_KEPT = 8
_COMPACTION = "compaction"


class ParquetLake(Lake):
    """Parquet files under one root, one folder a topic and day."""

    def __init__(self, root: str, by: tuple[str, ...] = ("topic", "day")) -> None:
        self.root, self.by = root, by
        self._fs, self._base = arrow_fs.FileSystem.from_uri(data_files.as_uri(root))

    @property
    def layout(self) -> data_files.Layout:
        return data_files.Layout(self.root, folder=_STAGED, by=self.by)

    def exists(self) -> bool:
        return self._is_file(_SCHEMA)

    def schema(self) -> pa.Schema:
        with self._fs.open_input_file(self._at(_SCHEMA)) as stream:
            return pa.ipc.read_schema(pa.BufferReader(stream.read()))

    def version_of(self, app: str) -> int | None:
        self._finish_moves()
        return max((version for version, _path in self._entries(app)), default=None)

    def commit(self, made: Sequence[Made], schema: pa.Schema, app: str, version: int) -> None:
        if not self.exists():
            self._write(_SCHEMA, schema.serialize().to_pybytes())
        moves = {each.path: each.path.removeprefix(f"{_STAGED}/") for each in made}
        self._record(app, version, {"moves": moves, "removes": [], "done": False})
        self._finish_moves()
        # What failed tasks had staged is not needed any more.
        self._fs.delete_dir_contents(self._at(_STAGED), missing_dir_ok=True)

    def pieces(self, wanted: Wanted) -> list[data_files.Piece]:
        self._finish_moves()
        found = (
            data_files.Piece(self._full(path), self._values(path), None, size)
            for path, size in self._data()
        )
        return [piece for piece in found if wanted.partition(piece.values)]

    def compact(self, *, below_bytes: int, keep_hours: int) -> Compaction:  # noqa: ARG002
        # Old files go at once: a folder has no versions that a reader could still be using.
        self._finish_moves()
        small: dict[str, list[str]] = defaultdict(list)
        for path, size in self._data():
            if size < below_bytes:
                small[path.rpartition("/")[0]].append(path)
        done = Compaction()
        for folder, paths in small.items():
            if len(paths) > 1:
                self._merge(folder, sorted(paths))
                done += Compaction(len(paths), 1)
        return done

    def _merge(self, folder: str, paths: Sequence[str]) -> None:
        name = f"{folder}/part-{uuid.uuid4().hex}.zstd.parquet"
        staged = f"{_STAGED}/{name}"
        self._fs.create_dir(self._at(staged).rpartition("/")[0], recursive=True)
        inside = pa.schema([each for each in self.schema() if each.name not in self.by])
        with (
            self._fs.open_output_stream(self._at(staged)) as stream,
            pq.ParquetWriter(stream, inside, compression="zstd") as merged,
        ):
            for path in paths:
                for batch in data_files.read_file(self._full(path), {}, inside):
                    merged.write_batch(batch)
        before = max((version for version, _path in self._entries(_COMPACTION)), default=0)
        entry = {"moves": {staged: name}, "removes": list(paths), "done": False}
        self._record(_COMPACTION, before + 1, entry)
        self._finish_moves()

    def _record(self, app: str, version: int, entry: dict[str, Any]) -> None:
        self._write(
            f"{_OWN}/journal/{data_files.folder_name(app)}/{version:020}.json",
            json.dumps(entry).encode(),
        )

    def _finish_moves(self) -> None:
        """Every journal entry that is not done yet; doing a move twice changes nothing."""
        for folder in self._listing(f"{_OWN}/journal"):
            entries = sorted(self._entries(folder.base_name))
            for _version, path in entries[-_KEPT:]:
                self._finish(path)
            for _version, path in entries[:-_KEPT]:
                self._fs.delete_file(path)

    def _finish(self, path: str) -> None:
        with self._fs.open_input_file(path) as stream:
            entry = json.loads(stream.read())
        if entry["done"]:
            return
        for staged, final in entry["moves"].items():
            if self._is_file(staged):
                self._fs.create_dir(self._at(final).rpartition("/")[0], recursive=True)
                self._fs.move(self._at(staged), self._at(final))
        for each in entry["removes"]:
            if self._is_file(each):
                self._fs.delete_file(self._at(each))
        self._write(
            path.removeprefix(f"{self._base}/"), json.dumps(entry | {"done": True}).encode()
        )

    def _entries(self, app: str) -> list[tuple[int, str]]:
        listing = self._listing(f"{_OWN}/journal/{data_files.folder_name(app)}")
        return [
            (int(each.base_name[:20]), each.path) for each in listing if each.extension == "json"
        ]

    def _data(self) -> list[tuple[str, int]]:
        selector = arrow_fs.FileSelector(self._base, recursive=True, allow_not_found=True)
        own = f"{self._base}/{_OWN}/"
        return [
            (each.path.removeprefix(f"{self._base}/"), each.size)
            for each in self._fs.get_file_info(selector)
            if each.is_file and each.extension == "parquet" and not each.path.startswith(own)
        ]

    def _values(self, path: str) -> dict[str, str]:
        pairs = (part.partition("=") for part in path.split("/")[:-1])
        return {name: unquote(value) for name, _equals, value in pairs}

    def _listing(self, folder: str) -> list[Any]:
        selector = arrow_fs.FileSelector(self._at(folder), allow_not_found=True)
        return list(self._fs.get_file_info(selector))

    def _is_file(self, path: str) -> bool:
        return bool(self._fs.get_file_info(self._at(path)).is_file)

    def _write(self, path: str, content: bytes) -> None:
        write_whole(self._fs, self._at(path), content)

    def _at(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _full(self, path: str) -> str:
        return f"{self.root.rstrip('/')}/{path}"
