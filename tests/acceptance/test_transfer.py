"""Messages out of a database and into it again, through files and pipes."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import typer

from tests.acceptance.commandline import PROGRAM, CommandLine

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from tests.fixtures.databases import Database

FORMATS = ["jsonl", "csv", "parquet"]
COUNT = 2_500
PAYLOADS: list[Any] = [{"ü": "\n\",\r 'x'", "n": [1, None, True]}, "text", None, 7, [], ""]


@pytest.fixture
def penstock(database: Database) -> CommandLine:
    return CommandLine(database.dsn)


@pytest.fixture
def orders(penstock: CommandLine, db: psycopg.Connection[Any]) -> CommandLine:
    """A topic with more than two pages of messages, and a queue that has them all."""
    penstock.ok("queue", "create", "billing", "--topic", "orders", "--max-attempts", "1")
    penstock.ok("topic", "create", "copy")
    db.execute(
        "select count(*) from penstock.publish_messages('orders',"
        " array(select jsonb_build_object('n', n) from generate_series(1, %s) n))",
        (COUNT,),
    )
    return penstock


def log(db: psycopg.Connection[Any], topic: str) -> list[Any]:
    return db.execute(
        "select payload, headers, key, priority, expires_at, correlation_id, tenant_id"
        " from penstock.browse_topic(%s, 0, 10000)",
        (topic,),
    ).fetchall()


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_is_exported_and_imported_is_the_same(
    penstock: CommandLine, db: psycopg.Connection[Any], tmp_path: Path, suffix: str
) -> None:
    penstock.ok("topic", "create", "orders")
    penstock.ok("topic", "create", "copy")
    for number, payload in enumerate(PAYLOADS):
        db.execute(
            "select penstock.publish_message('orders', %s, headers => %s, key => %s,"
            " priority => %s, expires_at => now() + interval '1 day', correlation_id => 'c',"
            " tenant_id => %s)",
            (json.dumps(payload), '{"h": [1]}', f'k"{number}', number, "ten\nant"),
        )
    file = str(tmp_path / f"orders.{suffix}")
    told = penstock.ok("message", "export", "orders", "--log", "--output", file, "--json").json
    assert told["exported"] == len(PAYLOADS)
    told = penstock.ok("message", "import", "copy", file, "--json").json
    assert told == {"topic": "copy", "imported": len(PAYLOADS), "before": 0, "rows": len(PAYLOADS)}
    assert log(db, "copy") == log(db, "orders")
    again = penstock.ok("message", "import", "copy", file)
    assert "imported before" in again.out
    assert len(log(db, "copy")) == len(PAYLOADS)
    penstock.ok("message", "import", "copy", file, "--again")
    assert len(log(db, "copy")) == 2 * len(PAYLOADS)


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_export_that_was_cut_off_goes_on_and_is_whole(
    orders: CommandLine, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.cli import message_export
    from penstock.cli.session import Session

    monkeypatch.setattr(message_export, "PART_ROWS", 1)
    assert orders.dsn is not None
    place = tmp_path / f"billing.{suffix}"
    state = message_export.State("queue", "billing", suffix)
    source = message_export.of_queue("billing")
    sink = message_export.open_sink(str(place), state, source.columns, resume=False)
    with Session(orders.dsn, json=True) as session:
        pages = source.pages(session, 0)
        after, records = next(pages)
        sink.write(records, after)
    sink.close()
    # The second page reached the file, and its state did not.
    if suffix != "parquet":
        with place.open("ab") as stream:
            stream.write(b"half a li")
    refused = orders("message", "export", "billing", "-o", str(place))
    assert refused.code == 2
    assert "--resume" in refused.err
    unfinished = orders("message", "import", "copy", str(place))
    assert unfinished.code == 2
    assert "not finished" in " ".join(unfinished.err.replace("│", "").split())
    other = orders("message", "export", "orders", "--log", "-o", str(place), "--resume")
    assert other.code == 2
    told = orders.ok("message", "export", "billing", "-o", str(place), "--resume", "--json").json
    assert told["exported"] == COUNT
    told = orders.ok("message", "import", "copy", str(place), "--json").json
    assert told["imported"] == COUNT


def test_an_export_whose_file_was_changed_does_not_go_on(tmp_path: Path) -> None:
    from penstock.cli import message_export

    place = tmp_path / "orders.csv"
    state = message_export.State("queue", "billing", "csv")
    sink = message_export.open_sink(str(place), state, ("payload",), resume=False)
    sink.write([{"payload": 1}], 1)
    sink.close()
    place.unlink()
    state = message_export.State("queue", "billing", "csv")
    with pytest.raises(typer.BadParameter, match="changed"):
        message_export.open_sink(
            str(place), message_export.State("queue", "billing", "csv"), ("payload",), resume=True
        )


def test_an_import_that_was_cut_off_goes_on_and_doubles_nothing(
    orders: CommandLine,
    db: psycopg.Connection[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from penstock.cli import message_import
    from penstock.cli.file_formats import Format
    from penstock.cli.session import Session

    file = tmp_path / "orders.jsonl"
    orders.ok("message", "export", "orders", "--log", "-o", str(file))
    monkeypatch.setattr(message_import, "BATCH", 1000)
    given = message_import.ImportFile("orders.jsonl", file, Format.JSONL, raw=False)
    source = message_import._source(given, None, again=False)
    with Session(orders.dsn, json=True) as session:
        lines = message_import.outgoing.lines(list(given.messages())[:1000])
        message_import._publish_batch(session, "copy", lines, source, 0)
        with session.connection.transaction(force_rollback=True):
            message_import._publish_batch(session, "copy", lines, source, 1000)
    told = orders.ok("message", "import", "copy", str(file), "--json").json
    assert (told["before"], told["imported"]) == (1000, COUNT - 1000)
    assert [row[0]["n"] for row in log(db, "copy")] == list(range(1, COUNT + 1))


def test_two_imports_of_one_file_at_a_time_publish_it_once(
    orders: CommandLine, db: psycopg.Connection[Any], tmp_path: Path
) -> None:
    file = tmp_path / "orders.jsonl"
    orders.ok("message", "export", "orders", "--log", "-o", str(file))
    running = [orders.start("message", "import", "copy", str(file)) for _ in range(2)]
    for each in running:
        each.communicate(timeout=120)
    assert len(log(db, "copy")) == COUNT


def test_dead_letters_are_exported_with_their_error(penstock: CommandLine) -> None:
    penstock.ok("queue", "create", "billing", "--max-attempts", "1")
    penstock.ok("message", "publish", "billing", '{"order": 7}')
    penstock.ok("message", "consume", "billing", "--token", "t")
    penstock.ok("message", "nack", "billing", "1", "--token", "t", "--error", "card refused")
    (letter,) = penstock.ok("message", "export", "billing", "--dead").lines
    assert (letter["id"], letter["error"], letter["payload"]) == (1, "card refused", {"order": 7})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"payload": 1}\n{"payload"\n', "row 2"),
        ('{"payload": 1}\n{"paylod": 2}\n', "no payload"),
        ('{"payload": 1, "colour": 2}\n', "'colour'"),
        ('{"payload": 1, "expires_at": "2030-01-01T00:00:00"}\n', "time zone"),
        ('{"payload": 1, "key": 7}\n', "key"),
        ('{"payload": 1, "key": "\\ud800"}\n', "surrogate"),
        ('{"payload": 1, "deliver_after": 7}\n', "no time"),
        ("7\n", "--raw"),
    ],
)
def test_a_file_with_a_bad_row_publishes_nothing(
    penstock: CommandLine, tmp_path: Path, text: str, told: str
) -> None:
    penstock.ok("topic", "create", "orders")
    file = tmp_path / "orders.jsonl"
    file.write_text(text)
    ran = penstock("message", "import", "orders", str(file))
    assert ran.code == 2
    assert told in " ".join(ran.err.replace("│", "").split())
    assert penstock.ok("message", "export", "orders", "--log").out == ""


def test_raw_rows_come_through_a_pipe(penstock: CommandLine) -> None:
    penstock.ok("topic", "create", "orders")
    penstock.ok("message", "import", "orders", "-", "--raw", stdin="7\n[1]\n")
    csv = penstock.ok(
        "message", "import", "orders", "-", "--raw", "--format", "csv", stdin="a,b\n1,x\n"
    )
    assert "imported 1" in csv.out
    found = penstock.ok("message", "export", "orders", "--log").lines
    assert [each["payload"] for each in found] == [7, [1], {"a": "1", "b": "x"}]


def test_a_reader_that_goes_away_ends_an_export_without_a_word(orders: CommandLine) -> None:
    line = f"'{PROGRAM}' message export orders --log | head -n 1"
    ran = subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=orders.environment({}),
    )
    assert json.loads(ran.stdout)["payload"] == {"n": 1}
    assert ran.stderr == ""


def test_an_export_of_what_does_not_exist_makes_no_file(
    penstock: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "nothing.jsonl"
    assert penstock("message", "export", "nothing", "-o", str(file)).code == 1
    assert not file.exists()
    assert penstock("message", "export", "nothing", "-o", str(tmp_path / "x.doc")).code == 2


HUGE_LINE = 500 * 1000**2
# The limit of a line is 64 MiB; a few copies of such a line, and what Python and pytest take.
MOST_MEMORY = 700 * 1000**2


@pytest.mark.parametrize(
    "words",
    [
        ("import", "orders", "FILE"),
        ("import", "orders", "FILE", "--raw"),
        ("import", "orders", "FILE", "--format", "csv"),
        ("import", "orders", "-"),
        ("publish", "orders", "--file", "FILE"),
        ("publish", "orders", "--file", "-"),
        ("publish", "orders"),
    ],
    ids=" ".join,
)
def test_a_huge_line_is_refused_before_it_fills_the_memory(
    penstock: CommandLine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    penstock.ok("topic", "create", "orders")
    file = tmp_path / "huge.jsonl"
    with file.open("wb") as stream:
        stream.write(b'{"payload": 1}\n{"payload": "')
        # Zero bytes that take no room on the disk.
        stream.truncate(HUGE_LINE)
    said = tmp_path / "stderr"
    with file.open("rb") as given, said.open("wb") as err:
        command = [PROGRAM, "message", *(str(file) if word == "FILE" else word for word in words)]
        running = subprocess.Popen(
            command, stdin=given, stderr=err, env=penstock.environment({"COLUMNS": "1000"})
        )
        _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    told = said.read_text()
    assert running.returncode == 2, told
    assert "64 MiB" in told
    if "import" in words or "--file" in words:
        assert f"{file if 'FILE' in words else '-'}, line 2" in told
    assert used.ru_maxrss * 1024 < MOST_MEMORY
    assert penstock.ok("message", "export", "orders", "--log").out == ""
