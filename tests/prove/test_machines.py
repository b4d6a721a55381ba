"""Machines by the thousand: steps counted, disagreements told, each sabotage in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.tasks.options import Tables
from penstock.tasks.stores import mysql_dialect as mysql
from penstock.tasks.stores import postgres_dialect as postgres
from penstock.tasks.stores.sql_statements import load
from prove.machines import crew, twins
from prove.machines.exploring import Disagreement, Exploration
from prove.model import Take
from prove.sabotage import LATE_DELETES, rewrite

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg


class Adder(RuleBasedStateMachine):
    """Adds numbers, and writes down what it does."""

    most = 10**9

    def __init__(self, told: list[Any]) -> None:
        super().__init__()
        self.told, self.sum = told, 0

    @initialize(number=st.integers(0, 5))
    def begin(self, number: int) -> None:
        self.add(number)

    @rule(number=st.integers(0, 5))
    def add(self, number: int) -> None:
        self.told.append(number)
        self.sum += number

    @precondition(lambda self: self.sum > 20)
    @rule()
    def forget(self) -> None:
        self.told.append("forgotten")
        self.sum = 0

    @invariant()
    def it_is_not_too_much(self) -> None:
        assert self.sum <= self.most, "too much"


class Poor(Adder):
    most = 30


class Broken(Adder):
    @invariant()
    def nobody_is_there(self) -> None:
        raise ConnectionError("nobody is there")


def explored(kind: type[Adder], seed: int = 7, wanted: int = 300) -> tuple[Exploration, list[Any]]:
    told: list[Any] = []
    exploration = Exploration(seed, shrink=False)
    exploration.go_on([lambda: kind(told)], wanted)
    return exploration, told


def test_every_step_that_was_made_is_counted_once() -> None:
    exploration, told = explored(Adder, wanted=1500)
    assert 1500 <= exploration.steps == len(told) < 3000
    assert "forgotten" in told


def test_seed_can_be_replayed() -> None:
    assert explored(Adder, seed=7)[1] == explored(Adder, seed=7)[1]
    assert explored(Adder, seed=7)[1] != explored(Adder, seed=8)[1]


def test_machines_of_every_kind_are_played() -> None:
    first: list[Any] = []
    second: list[Any] = []
    Exploration(7, shrink=False).go_on([lambda: Adder(first), lambda: Adder(second)], 1000)
    assert first
    assert second


def test_disagreement_is_told_with_the_steps_that_led_there() -> None:
    with pytest.raises(Disagreement, match="too much") as caught:
        explored(Poor)
    assert "state.add(number=" in str(caught.value)


def test_error_of_another_kind_is_no_disagreement() -> None:
    with pytest.raises(ConnectionError):
        explored(Broken)


@pytest.mark.parametrize(
    ("dialect", "file", "sabotage"),
    [
        (postgres, "postgres_statements.sql", twins.ANY_ATTEMPT),
        (mysql, "mysql_statements.sql", twins.LEASES_NEVER_END),
    ],
    ids=["postgresql", "mariadb"],
)
def test_sabotage_of_a_task_store_has_its_place(
    dialect: Any, file: str, sabotage: tuple[str, str]
) -> None:
    with twins.statements_rewritten(dialect, *sabotage):
        rewritten = dialect.load(file)
    assert rewritten != load(file) == dialect.load(file)
    with (
        twins.statements_rewritten(postgres, "no statement has this", ""),
        pytest.raises(LookupError),
    ):
        postgres.PostgresDialect(Tables())


def test_sabotage_of_sqs_has_its_place(db: psycopg.Connection[Any]) -> None:
    rewrite(db, *LATE_DELETES)


def test_sabotaged_door_is_noticed_in_a_process_of_its_own(tmp_path: Path) -> None:
    take = Take(7, quick=True, sabotaged=True, folder=tmp_path, say=print)
    door = "tasks on PostgreSQL"
    found = crew.explore(take, [door], 4000)[door]
    assert not found.trouble
    assert "LeaseLost" in found.wrong
    assert 0 < found.steps < 4000


def test_door_that_can_not_be_opened_is_no_disagreement(tmp_path: Path) -> None:
    take = Take(7, quick=True, sabotaged=True, folder=tmp_path, say=print)
    found = crew.explore(take, ["cellar"], 100)["cellar"]
    assert found.trouble
    assert not found.wrong
