"""Counting instructions: what is asked of the server, and how the count is read."""

from __future__ import annotations

import pytest

from bench.instructions import TASKS, collected, script
from bench.server import ServerError


@pytest.mark.parametrize("statements", [each.engine for each in TASKS] + [TASKS[-1].textbook])
def test_a_script_is_one_line_with_a_commit_in_every_round(statements: str) -> None:
    text = script(statements, 7)
    assert text.count("\n") == 1
    assert "for i in 1..7 loop" in text
    assert "; commit; end loop" in text


def test_the_count_is_found_in_what_valgrind_writes() -> None:
    said = "==7== Events    : Ir\n==7== Collected : 236250901\n==7== I   refs:      236,250,901\n"
    assert collected(said) == 236_250_901


def test_a_failure_of_valgrind_is_shown() -> None:
    with pytest.raises(ServerError, match="can't open"):
        collected("valgrind: can't open the program")
