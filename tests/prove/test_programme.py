"""The programme's own frame: a part that is kept, one that is broken, a twin that gets away."""

from __future__ import annotations

import gzip
import json
import tempfile
from typing import TYPE_CHECKING

import pytest

from prove.harness import play
from prove.ledger import Ledger, Step, read
from prove.model import Outcome, Part
from prove.parts import PARTS
from prove.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path

    from prove.model import Take


@pytest.fixture(autouse=True)
def logs_go_with_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that is not kept leaves its logs in the temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def part(honest: Outcome, twin: Outcome, **more: object) -> Part:
    def either(take: Take) -> Outcome:
        return twin if take.sabotaged else honest

    given = {"name": "rehearsal", "promise": "", "how": "", "sabotage": "", **more}
    return Part(breaks=frozenset({"lost"}), play=either, **given)


KEPT = Outcome({"acked": 5})
LOST = Outcome({"acked": 5}, {"lost": 1})


@pytest.mark.parametrize(
    ("honest", "twin", "status"),
    [
        (KEPT, LOST, "kept"),
        (KEPT, KEPT, "twin not caught"),
        (KEPT, Outcome({}, {"unexpected": 1}), "twin not caught"),
        (LOST, LOST, "broken"),
        (Outcome(skipped="no loop devices"), KEPT, "skipped"),
    ],
)
def test_part_is_kept_only_when_its_twin_is_caught_at_what_it_breaks(
    honest: Outcome, twin: Outcome, status: str, tmp_path: Path
) -> None:
    report = play(part(honest, twin), 7, quick=True, out=tmp_path, say=print)
    assert report.status == status
    written = json.loads((tmp_path / "rehearsal.json").read_text())
    assert (written["status"], written["seed"]) == (status, 7)


def test_full_run_that_counted_too_little_is_no_proof(tmp_path: Path) -> None:
    rehearsed = part(KEPT, LOST, enough={"acked": 6})
    assert play(rehearsed, 7, quick=False, out=tmp_path, say=print).status == "too small"
    assert play(rehearsed, 7, quick=True, out=tmp_path, say=print).status == "kept"


def test_history_outlives_its_actors_in_the_order_of_writing(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        one, other = Ledger(recorder.pipe, "one"), Ledger(recorder.pipe, "other")
        one.note(Step.ATTEMPT, 1, place="key")
        other.note(Step.DELIVERED, 1, 10, 2, "billing")
        one.close()
        other.close()
    first, second = read(recorder.file)
    assert (first.actor, first.step, first.place) == ("one", Step.ATTEMPT, "key")
    assert (second.message_id, second.attempt, second.place) == (10, 2, "billing")


def rehearsed_with_a_history(take: Take) -> Outcome:
    (take.folder / "history.log").write_text("1 one fault 1 0 0 server-kill\n")
    return LOST if take.seed == 13 else KEPT


@pytest.mark.parametrize(("seed", "keep", "kept"), [(7, False, 0), (7, True, 1), (13, False, 1)])
def test_history_is_kept_on_request_and_when_a_part_fails(
    seed: int, keep: bool, kept: int, tmp_path: Path
) -> None:
    told = Part("rehearsal", "", "", "", frozenset(), rehearsed_with_a_history)
    out, histories = tmp_path / "out", tmp_path / "histories"
    play(told, seed, quick=True, out=out, say=print, keep_history=keep, histories=histories)
    assert len(list(histories.glob("rehearsal.history.jsonl.gz"))) == kept
    assert [path.name for path in out.iterdir()] == ["rehearsal.json"]


def test_part_works_at_a_small_size(tmp_path: Path) -> None:
    report = play(
        PARTS["server-kill"],
        7,
        quick=True,
        out=tmp_path,
        say=print,
        keep_history=True,
        histories=tmp_path,
    )
    assert report.status == "kept", report
    assert report.honest.counts["acked"] > 0
    lines = gzip.decompress((tmp_path / "server-kill.history.jsonl.gz").read_bytes()).splitlines()
    faults = [line for line in map(json.loads, lines) if "fault" in line]
    assert len(faults) == report.honest.counts["server kills"]
