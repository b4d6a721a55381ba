"""Test servers keep their data in memory, where that is possible and nobody chose another place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.testing import scratch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(scratch, "_MEMORY", tmp_path)
    monkeypatch.setattr(scratch, "_ROOM", 1)
    return tmp_path


def test_memory_is_used_where_there_is_room(memory: Path) -> None:
    assert scratch.parent() == memory


def test_memory_without_room_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_ROOM", 2**62)
    assert scratch.parent() is None


def test_machine_without_such_memory_uses_the_disk(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_MEMORY", memory / "none")
    assert scratch.parent() is None


def test_chosen_folder_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/somewhere")
    assert scratch.parent() is None
