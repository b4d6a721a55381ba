"""Tools that write files: what is not current is written, and --check only tells."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tools import current

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(current, "ROOT", tmp_path)
    return tmp_path


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tools/page.py", *words])
    wanted = {folder / "new" / "page.md": "text\n"}
    return current.keep("A page.", lambda: wanted, lambda: folder.rglob("*.md"))


def test_what_is_out_of_date_is_written_and_what_is_left_over_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "old.md").write_text("old")
    assert run(folder, monkeypatch) == 0
    assert (folder / "new" / "page.md").read_text() == "text\n"
    assert not (folder / "old.md").exists()
    assert run(folder, monkeypatch, "--check") == 0


def test_a_check_names_what_is_out_of_date_and_writes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (folder / "old.md").write_text("old")
    assert run(folder, monkeypatch, "--check") == 1
    said = capsys.readouterr().err
    assert "new/page.md is out of date: run python tools/page.py" in said
    assert "old.md is out of date" in said
    assert [path.name for path in folder.rglob("*.md")] == ["old.md"]
