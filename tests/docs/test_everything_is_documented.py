"""A command, a setting, an event, a metric, an error or a public name that no page tells of."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer

from penstock import errors
from penstock.cli.app import EXIT_CODES, app
from penstock.observe import Name
from penstock.observe.instruments import every_metric
from penstock.settings import Settings, variable
from tests.docs.pages import GENERATED, ROOT, Page

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

GENERATORS = ["cli_reference.py", "observe_reference.py", "python_reference.py"]
MODULES = ["penstock", "penstock.sync", "penstock.observe", "penstock.tasks", "penstock.testing"]


def reference(name: str) -> str:
    return Page(GENERATED / name).text


def commands(command: Any, words: str = "penstock") -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name in command.commands:
            yield from commands(command.commands[name], f"{words} {name}")
    else:
        yield words, command


def section(page: str, title: str) -> str:
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{title} is not documented"
    return found[1]


@pytest.mark.parametrize("tool", GENERATORS)
def test_generated_page_is_current(tool: str) -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "tools" / tool, "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def test_every_command_and_option_is_documented() -> None:
    page = reference("cli.md")
    for words, command in commands(typer.main.get_command(app)):
        text = section(page, words)
        assert "```sh\npenstock" in text, f"{words} has no example"
        for parameter in command.params:
            if parameter.name not in {"dsn", "json", "help"}:
                named = (
                    parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
                )
                assert named in text, f"{words}: {named}"


def test_every_exit_code_is_documented_and_no_other_is_used() -> None:
    assert set(re.findall(r"^\| (\d+) \|", reference("cli.md"), re.MULTILINE)) == {
        str(code) for code in EXIT_CODES
    }
    used = {
        int(value)
        for path in (ROOT / "src/penstock/cli").rglob("*.py")
        for text in [path.read_text()]
        for line in re.findall(r"(?:[Ee]xit\(| code = ).*", text)
        for name in re.findall(r"\b[A-Z_]+\b", line)
        for value in re.findall(
            rf"^(?:[A-Z_]+ = )*{name} = (?:[A-Z_]+ = )*(\d+)$", text, re.MULTILINE
        )
    }
    assert {1, 128, 130} <= used <= EXIT_CODES.keys()


def test_every_event_is_documented() -> None:
    assert {name for name in Name if f"| `{name}` |" not in reference("events.md")} == set()


def test_every_metric_is_documented() -> None:
    page = reference("metrics.md")
    assert {name for name in every_metric() if f"| `{name}` |" not in page} == set()


def test_every_error_is_documented(db: psycopg.Connection[Any]) -> None:
    kinds = {
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.PenstockError)
    }
    assert {name for name in kinds if f"| `{name}` |" not in reference("errors.md")} == set()
    codes = {code for (code,) in db.execute("select code from penstock.error_codes()")}
    assert {code for code in codes if code not in section(reference("sql.md"), "Errors")} == set()
    # A code that Python maps has its place in the tree, too.
    assert {code for code in codes if code not in reference("errors.md")} == set()


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_documented(module: str) -> None:
    page = section(reference("python.md"), module)
    names = [name for name in importlib.import_module(module).__all__ if name[0] != "_"]
    assert names
    assert {name for name in names if f"| `{name}` |" not in page} == set()


def test_every_setting_of_a_process_is_documented() -> None:
    page = (ROOT / "docs/operate/settings.md").read_text()
    fields = {variable(field) for field in Settings.__dataclass_fields__}
    assert {name for name in fields if f"`{name}`" not in page} == set()


def test_figures_of_the_capacity_page_are_those_of_the_run() -> None:
    page = (ROOT / "docs/operate/capacity.md").read_text()
    run = json.loads((ROOT / "bench/results/reference.json").read_text())["results"]
    found = {
        (each["scenario"], each["case"]["batch"]): each
        for each in run
        if each["contestant"] == "penstock"
    }
    rows = {
        "publish, backend CPU": ("publish", "cpu_us"),
        "claim + ack in one queue, backend CPU": ("claim-ack", "cpu_us"),
        "publish, WAL": ("publish", "wal_bytes"),
        "claim + ack in one queue, WAL": ("claim-ack", "wal_bytes"),
    }
    for title, (scenario, figure) in rows.items():
        (one, hundred) = re.findall(
            rf"^\| {re.escape(title)} \| ([\d.]+) \S+ \| ([\d.]+)", page, re.MULTILINE
        )[0]
        assert float(one) == pytest.approx(found[scenario, 1][figure], rel=0.01)
        assert float(hundred) == pytest.approx(found[scenario, 100][figure], rel=0.01)
    assert f"{round(found['claim-ack', 100]['messages_per_second']):,}" in page
    assert f"{round(found['claim-ack', 1]['messages_per_second']):,}" in page


def test_the_readme_fits_on_a_few_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1_810
