"""ingest: each file once, each bad row aside with its reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import InvalidSetting
from penstock.spark.pipelines import Mapping, ingest, publication

if TYPE_CHECKING:
    from pathlib import Path

    from tests.pipelines.shop import Shop


def rejected(folder: Path) -> dict[str, str]:
    """Row to reason."""
    lines = [line for path in folder.glob("*/*.json") for line in path.read_text().splitlines()]
    return {each["row"]: each["reason"] for each in map(json.loads, lines)}


def lines(*rows: Any) -> str:
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


@pytest.mark.always
def test_json_lines_are_mapped_and_read_once(shop: Shop):
    inbox = shop.folder / "inbox"
    inbox.mkdir()
    (inbox / "a.jsonl").write_text(
        lines(
            {"n": 1, "who": "ada", "rush": True},
            "{broken",
            "",
            {"n": 2, "who": "bob", "rush": False},
        )
    )
    (inbox / "_unfinished.jsonl").write_text(lines({"n": 99}))
    mapping = Mapping(
        key="who", headers={"length": "length(who)"}, priority="if(rush, 9, 0)", tenant="upper(who)"
    )
    done = shop(ingest, str(inbox), "orders", mapping=mapping, rejects=shop.folder / "bad")
    assert (done.rows, done.rejected) == (2, 1)
    assert shop.messages("orders") == [
        {
            "key": name,
            "payload": {"n": n, "who": name, "rush": rush},
            "headers": {"length": 3},
            "priority": 9 if rush else 0,
            "tenant_id": name.upper(),
        }
        for n, name, rush in ((1, "ada", True), (2, "bob", False))
    ]
    [(row, reason)] = rejected(shop.folder / "bad").items()
    assert row == "{broken"
    assert "must be JSON" in reason

    (inbox / "b.jsonl").write_text(lines({"n": 3, "who": "cy"}))
    again = shop(ingest, str(inbox), "orders", mapping=mapping)
    assert (again.rows, again.details["files"]) == (1, 1)
    assert shop.numbers("orders") == [1, 2, 3]


def test_csv_files_with_different_headers_and_parquet_together(shop: Shop):
    inbox = shop.folder / "inbox"
    (inbox / "deep").mkdir(parents=True)
    (inbox / "a.csv").write_text("n,name\n1,Ada\n2\n")
    (inbox / "deep" / "b.csv").write_text("name,n\nBob,3\n")
    pq.write_table(pa.table({"n": [4], "when": [None]}), inbox / "c.parquet")
    (inbox / "d.parquet").write_bytes(b"not parquet")
    (inbox / "notes.txt").write_text("not data")
    done = shop(ingest, str(inbox), "rows", rejects=shop.folder / "bad")
    assert (done.rows, done.rejected) == (3, 2)
    assert sorted(
        (each["payload"] for each in shop.messages("rows")), key=lambda p: str(p["n"])
    ) == [
        {"n": "1", "name": "Ada"},
        {"n": "3", "name": "Bob"},
        {"n": 4, "when": None},
    ]
    assert list(rejected(shop.folder / "bad").values()) == ["does not fit the columns: 2"]


def test_a_run_that_ended_before_its_mark_publishes_nothing_twice(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    for number in range(4):
        (shop.folder / f"{number}.jsonl").write_text(lines({"n": number}))
    pattern = str(shop.folder / "*.jsonl")
    published = publication.publish

    def then_crash(run: Any, frame: Any, app: str, version: int) -> None:
        published(run, frame, app, version)
        if version == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publication, "publish", then_crash)
        with pytest.raises(KeyboardInterrupt):
            shop(ingest, pattern, "orders", files_per_batch=1)
    assert shop.numbers("orders") == [0, 1]
    shop(ingest, pattern, "orders", files_per_batch=1)
    assert shop.numbers("orders") == [0, 1, 2, 3]


def test_a_row_whose_mapping_fails_is_rejected_alone(shop: Shop):
    inbox = shop.folder / "inbox"
    inbox.mkdir()
    (inbox / "a.jsonl").write_text(
        lines({"n": 1, "p": "5"}, {"n": 2, "p": "high"}, {"n": 3, "p": "7"})
    )
    mapping = Mapping(priority="cast(p as int)")
    done = shop(ingest, str(inbox), "orders", mapping=mapping, rejects=shop.folder / "bad")
    assert (done.rows, done.rejected) == (2, 1)
    assert {each["payload"]["n"]: each["priority"] for each in shop.messages("orders")} == {
        1: 5,
        3: 7,
    }
    [(row, reason)] = rejected(shop.folder / "bad").items()
    assert (json.loads(row)["n"], "CAST_INVALID_INPUT" in reason) == (2, True)


def test_a_table_of_spark_is_published_once(shop: Shop):
    shop.spark.createDataFrame([(7, "x"), (8, "y")], "n int, s string").createOrReplaceTempView(
        "stock"
    )
    for rows in (2, 0):
        done = shop(ingest, "stock", "orders", table=True, mapping=Mapping(key="s", payload=["n"]))
        assert done.rows == rows
    assert {each["key"]: each["payload"] for each in shop.messages("orders")} == {
        "x": {"n": 7},
        "y": {"n": 8},
    }
    assert shop.numbers("orders") == [7, 8]


def test_mistakes_are_named_before_anything_is_published(shop: Shop):
    inbox = shop.folder / "inbox"
    inbox.mkdir()
    (inbox / "a.jsonl").write_text(lines({"n": 1}))
    with pytest.raises(InvalidSetting, match="no file or folder"):
        shop(ingest, str(shop.folder / "nowhere"), "orders")
    with pytest.raises(InvalidSetting, match="one of json, csv, parquet"):
        shop(ingest, str(inbox), "orders", format="xml")
    with pytest.raises(InvalidSetting, match=r"(?s)does not fit the data.*The columns are: n"):
        shop(ingest, str(inbox), "orders", mapping=Mapping(key="whom"))
    assert shop.messages("orders") == []
