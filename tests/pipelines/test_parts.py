"""The parts of pipelines that need no Spark: ledgers, checks, pace, names."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidSetting
from penstock.spark.lake.data_files import folder_name
from penstock.spark.pipelines import archive, ingest_files
from penstock.spark.pipelines.failures import PipelineFailed, first_words, plain_error
from penstock.spark.pipelines.message_origin import as_json, marked
from penstock.spark.pipelines.progress import Pace, Progress, line
from penstock.spark.pipelines.publication import fault
from penstock.spark.pipelines.run import utc
from penstock.spark.pipelines.selection import chunk_rows
from penstock.spark.pipelines.state import Ledger, State, default_location, work_off
from penstock.spark.pipelines.stream_options import subscription

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"value": '{"a": 1}', "headers": '{"h": [1]}', "priority": 5, "key": "k"}, None),
        ({"value": None}, "null"),
        ({"value": "{"}, "must be JSON"),
        ({"value": "NaN"}, "must be JSON"),
        ({"value": '{"a": ["\\u0000"]}'}, "PostgreSQL can't store"),
        ({"value": '"\\\\u0000"'}, None),
        ({"value": "1", "headers": "[1]"}, "must be a JSON object"),
        ({"value": "1", "key": "k" * 1025}, "more than 1024 bytes"),
        ({"value": "1", "tenant_id": "a\x00b"}, "NUL"),
        ({"value": "1", "priority": 1001}, "priority"),
        ({"value": "1", "topic": None}, "no topic"),
        ({"value": "x" * 11}, "at most 10"),
    ],
)
def test_a_row_that_the_database_would_refuse_is_told_with_its_reason(
    row: dict[str, Any], words: str | None
):
    found = fault(row, limit=10 if row["value"] == "x" * 11 else 1000)
    assert (found is None) if words is None else (words in str(found))


def test_work_goes_on_at_the_first_chunk_without_a_mark(tmp_path: Path):
    ledger = Ledger(State(str(tmp_path)))
    left = iter([{"n": n} for n in range(5)])
    seen: list[int] = []

    def do(chunk: Any) -> dict[str, Any]:
        seen.append(chunk.work["n"])
        if seen == [0, 1, 2]:
            raise KeyboardInterrupt
        return {"rows": 1}

    with pytest.raises(KeyboardInterrupt):
        work_off(ledger, do, lambda: next(left, None))
    again = Ledger(State(str(tmp_path)))
    assert again.app == ledger.app
    work_off(again, do, lambda: next(left, None))
    assert seen == [0, 1, 2, 2, 3, 4]
    assert [chunk.number for chunk, _result in again.finished()] == [0, 1, 2, 3, 4]


def test_a_state_knows_whether_a_stream_has_begun_here(tmp_path: Path):
    for state in (State(str(tmp_path / "here")), State(f"file://{tmp_path}/there")):
        assert not state.has_checkpoint()
        offsets = tmp_path / state.location.rpartition("/")[2] / "checkpoint" / "offsets"
        offsets.mkdir(parents=True)
        (offsets / ".0.crc").touch()
        assert not state.has_checkpoint(), "it failed before the first batch"
        (offsets / "0").touch()
        assert state.has_checkpoint()


def test_a_state_is_found_again_and_belongs_to_one_run(tmp_path: Path):
    assert default_location("archive", "a", 1) == default_location("archive", "a", 1)
    assert default_location("archive", "a", 1) != default_location("archive", "a", 2)
    state = State(str(tmp_path / "state"))
    with (
        state.held(),
        pytest.raises(InvalidSetting, match="another run"),
        State(str(tmp_path / "state")).held(),
    ):
        pass
    with state.held():
        pass
    remote = State("s3://bucket/state")
    assert remote.identity() == State("s3://bucket/state/").identity() != state.identity()
    with pytest.raises(InvalidSetting, match="is remote"):
        _ = State("s3://bucket/state").folder


def test_progress_tells_pace_and_time_left():
    moments = iter([0.0, 10.0, 40.0])
    pace = Pace(clock=lambda: next(moments))
    assert (pace.at(0), pace.at(100)) == (0.0, 10.0)
    # The first look is too long ago to count.
    assert pace.at(400) == 10.0
    seen = Progress("archive", 400, 10.0, lag=200, batches=2, rejected=3)
    assert seen.eta == timedelta(seconds=20)
    assert (
        line(seen).plain
        == "archive  running  ·  400 rows  ·  10 rows/s  ·  3 rejected  ·  lag 200  ·  0:00:20 left"
    )
    assert Progress("archive", lag=5).eta is None


def test_folders_can_be_named_by_any_topic():
    names = [
        "orders",
        "a/b",
        "..",
        ".hidden",
        "_x",
        "é" * 200,
        "é" * 199 + "e",
        "a%2Fb",
        " ",
        "a=b",
        "%",
    ]
    made = [folder_name(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(
        len(each.encode()) <= 200 and "/" not in each and each[0] not in "._" for each in made
    )


def test_topics_with_commas_are_subscribed_by_a_pattern():
    assert subscription(["a", "b"]) == {"subscribe": "a,b"}
    assert subscription(["a,b", "c.d"]) == {"subscribePattern": "a\\,b|c\\.d"}


def test_origins_are_kept_and_anything_becomes_json():
    once = marked('{"a": {"b": 1}}', original_id=1)
    assert json.loads(marked(once, original_id=2, original_topic="t")) == {
        "a": {"b": 1},
        "original_id": 1,
        "original_topic": "t",
    }
    texts = [
        as_json(each) for each in ('{"a":1}', "plain", b"\xff", b'"x"', None, {"a": 1}, "NaN", "01")
    ]
    assert texts == [
        '{"a":1}',
        '"plain"',
        '{"base64": "/w=="}',
        '"x"',
        "null",
        '{"a": 1}',
        '"NaN"',
        '"01"',
    ]


def test_a_rate_makes_small_chunks():
    assert (chunk_rows(None), chunk_rows(100), chunk_rows(0.1), chunk_rows(1e9)) == (
        50_000,
        200,
        1,
        50_000,
    )


def test_files_are_found_once_in_order_and_hidden_ones_are_not(tmp_path: Path):
    for name in (
        "b.jsonl",
        "a.csv",
        "deep/c.parquet",
        ".x.json",
        "_tmp/d.json",
        "e.txt",
        "f.json.gz",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = ingest_files.find([str(tmp_path), str(tmp_path / "*.jsonl")], None)
    assert [(each.path.removeprefix(f"{tmp_path}/"), each.format) for each in found] == [
        ("a.csv", "csv"), ("b.jsonl", "json"), ("deep/c.parquet", "parquet"), ("f.json.gz", "json"),
    ]  # fmt: skip
    assert ingest_files.find([str(tmp_path)], None, settled=timedelta(hours=1)) == []


def test_errors_are_told_in_one_line():
    ours = "penstock.spark.source.columns.InvalidColumn: no column x"
    page = f"[WRAPPED] x\n  at java\n{ours}\n SQLSTATE: 1\n  at java"
    assert first_words(RuntimeError(page)) == "no column x"
    assert isinstance(plain_error(RuntimeError("a\nb")), PipelineFailed)
    assert str(plain_error(RuntimeError("a\nb"))) == "a"
    mine = InvalidSetting("mine")
    assert plain_error(mine) is mine


def test_an_option_that_no_pipeline_has_is_refused():
    with pytest.raises(InvalidSetting, match="no option named chekpoint"):
        archive("orders", "nowhere", chekpoint="x")  # type: ignore[call-arg]


def test_moments_of_spark_are_of_this_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert utc(datetime(2026, 1, 31, 7)) == datetime(2026, 1, 31, 12, tzinfo=UTC)  # noqa: DTZ001
    finally:
        monkeypatch.undo()
        time.tzset()


def test_moments_are_utc():
    from penstock.cli.pipeline.lake_commands import moment

    assert moment("2026-01-31T12:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moment("2026-01-31T12:00+02:00") == datetime(2026, 1, 31, 10, tzinfo=UTC)
