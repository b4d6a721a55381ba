"""Small documents on any storage that Arrow knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def write_whole(store: FileSystem, path: str, content: bytes) -> None:
    """All or nothing: a reader finds the old document or the new one."""
    store.create_dir(path.rpartition("/")[0], recursive=True)
    with store.open_output_stream(f"{path}.new") as stream:
        stream.write(content)
    store.move(f"{path}.new", path)
