"""The table of the task bench: what is compared with what."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from bench.tasks.__main__ import SMALL, table
from bench.tasks.course import Figure


def figure(store: str, backlog: int, reserve: float) -> Figure:
    return Figure("PostgreSQL", store, backlog, 1, 0.5, 5.0, reserve, 0.2)


def test_a_reserve_is_compared_with_the_naive_one_and_with_a_small_backlog():
    figures = [
        figure("penstock", SMALL, 1.0),
        figure("naive", SMALL, 2.0),
        figure("penstock", 10**6, 1.5),
        figure("naive", 10**6, 300.0),
    ]
    shown = StringIO()
    Console(width=160, file=shown).print(table(figures))
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in shown.getvalue().splitlines()
        if line.startswith("│")
    ]
    assert [(row[1], row[3], *row[-3:]) for row in rows] == [
        ("1,000", "penstock", "0.30", "2.0", "1.0x"),
        ("1,000", "naive", "0.40", "1.0", "1.0x"),
        ("1,000,000", "penstock", "0.35", "200.0", "1.5x"),
        ("1,000,000", "naive", "30.20", "1.0", "150.0x"),
    ]
