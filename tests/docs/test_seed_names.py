"""The page of names is complete, and what it names exists."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import pytest

import penstock
from penstock.worker.options import Options
from tests.docs.pages import ROOT, Page
from tests.docs.seed_names import NAMES
from tests.tasks import seed as task_seed

PAGE = Page(ROOT / "docs" / "reference" / "seed-names.md")
SQS = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "sql" / "sqs").rglob("*.sql"))
REFERENCE = (ROOT / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")

# Words in code style that name neither a function nor a class: modes, orderings, files, modules.
WORDS = {"listen", "poll", "hybrid", "fifo", "fair", "logging", "PENSTOCK_*", "penstock doctor"}
WORDS |= {"penstock init", "penstock task init", "sql/install.sql", "sql/uninstall.sql", ".fifo"}


def _table(seed: str) -> list[tuple[str, str]]:
    section = PAGE.text.split(f"\n## {seed}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [tuple(line.strip("| ").split(" | ")) for line in lines]  # type: ignore[misc]


@pytest.mark.parametrize("seed", NAMES)
def test_every_name_of_a_seed_is_on_the_page(seed: str) -> None:
    there = {name for left, _ in _table(seed) for name in re.findall(r"`([^`]+)`", left)}
    there |= {part for name in there for part in name.split(".")[-1:]}
    assert set(NAMES[seed].split()) - there == set()


def test_the_names_of_the_task_tables_are_those_of_the_seed() -> None:
    """Every column and index that the seed's own statements make."""
    words = set(re.findall(r"\b[a-z_]+\b", " ".join([*task_seed.POSTGRES, *task_seed.INDEXES])))
    assert words <= set(NAMES["MQ task queue"].split())


@pytest.mark.parametrize("seed", NAMES)
def test_no_name_stands_without_an_answer(seed: str) -> None:
    assert [left for left, right in _table(seed) if not right.strip()] == []


def _ours() -> list[str]:
    found = {
        name
        for seed in NAMES
        for _, right in _table(seed)
        for name in re.findall(r"`([^`]+)`", right)
    }
    return sorted(found - WORDS)


@pytest.mark.parametrize("name", _ours())
def test_what_the_page_names_exists(name: str) -> None:
    assert _is_sql(name) or _is_column(name) or _is_python(name)


def _is_sql(name: str) -> bool:
    found = re.fullmatch(r"(penstock|pgqs)\.(\w+)\(\)", name)
    if found is None:
        return False
    if found[1] == "pgqs":
        return f"function pgqs.{found[2]}(" in SQS
    return f"\n### {found[2]}\n" in REFERENCE


def _is_column(name: str) -> bool:
    view, _, column = name.partition(".")
    heading = f"\n### View {view}\n"
    return heading in REFERENCE and f"`{column}`" in REFERENCE.split(heading)[1].split("\n### ")[0]


def _is_python(name: str) -> bool:
    path, _, option = name.partition("(")
    target: Any = penstock
    for step in path.split("."):
        if not _has(target, step):
            return False
        # What is known by its annotation only has no members that anybody names.
        target = getattr(target, step, None)
    return not option or option.removesuffix("=)") in _options(target)


def _has(owner: Any, member: str) -> bool:
    # A field of a dataclass or an attribute set later is known by its annotation only.
    return hasattr(owner, member) or (
        inspect.isclass(owner) and member in inspect.get_annotations(owner)
    )


def _options(function: Any) -> set[str]:
    if function is penstock.Worker.handler:
        return {"queue", *(each.name for each in dataclasses.fields(Options))}
    return set(inspect.signature(function).parameters)


def test_the_check_can_fail() -> None:
    assert not _is_python("Client.teleport")
    assert not _is_python("Client.publish(speed=)")
    assert not _is_python("tasks.Task.colour")
    assert not _is_python("tasks.TaskStore.reserve(speed=)")
    assert not _is_sql("pgqs.teleport()")
    assert not _is_sql("penstock.teleport()")
    assert not _is_column("queues.colour")
