"""Test servers keep their data in memory, where that is possible and no other place was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.testing import server

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(server, "_MEMORY", tmp_path)
    monkeypatch.setattr(server, "_ROOM_IN_MEMORY", 1)
    return tmp_path


def test_memory_is_used_where_there_is_room(memory: Path) -> None:
    assert server.folder_in_memory() == memory


def test_memory_without_room_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_ROOM_IN_MEMORY", 2**62)
    assert server.folder_in_memory() is None


def test_machine_without_such_memory_uses_the_disk(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MEMORY", memory / "none")
    assert server.folder_in_memory() is None


def test_chosen_folder_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/somewhere")
    assert server.folder_in_memory() is None
