"""Lines of files have a limit, whatever a record of them looks like."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
import typer

from penstock.cli import message_import, message_publish
from penstock.cli.file_formats import MIB, Format, Lines
from penstock.cli.message_import import ImportFile

if TYPE_CHECKING:
    from pathlib import Path


def lines(text: str) -> Lines:
    return Lines(io.StringIO(text), "orders.jsonl", 1, "FILE")


@pytest.mark.parametrize("letter", ["x", "ü", "🐢"])
def test_a_line_may_have_as_many_bytes_as_the_limit_and_no_more(letter: str):
    full = letter * (MIB // len(letter.encode()) - 1)
    assert next(lines(f"{full}\n")) == f"{full}\n"
    with pytest.raises(typer.BadParameter, match=r"orders.jsonl, line 1 is longer than 1 MiB"):
        next(lines(f"{full}{letter}x\n"))


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_end_as_they_do_elsewhere_in_python(end: str, tmp_path: Path):
    file = tmp_path / "orders.csv"
    file.write_bytes(f"payload{end}1{end}2{end}".encode())
    found = ImportFile("orders.csv", file, Format.CSV, raw=False).messages()
    assert [each.payload for each in found] == [1, 2]


@pytest.mark.parametrize(
    "record",
    [f'"{"x" * (MIB + 1)}"', '"' + "x\n" * (MIB // 2 + 1) + '"', '"a\nb",' * (MIB // 5)],
    ids=["one line", "one cell of many lines", "many cells of two lines"],
)
def test_a_record_of_csv_counts_as_a_whole(record: str, tmp_path: Path):
    file = tmp_path / "orders.csv"
    file.write_text(f"payload\n1\n{record}\n")
    given = ImportFile("orders.csv", file, Format.CSV, raw=True, max_line=1)
    with pytest.raises(typer.BadParameter, match=r"orders.csv, line 3 is longer than 1 MiB"):
        list(given.messages())


def test_large_payloads_are_sent_a_few_at_a_time():
    large = 5 * MIB
    found = message_publish._chunks((n, large) for n in range(10))
    assert [chunk for chunk, _ in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    messages = [message_import.Outgoing("x" * large) for _ in range(5)]
    assert [len(batch) for batch in message_import._batches(messages)] == [4, 1]
