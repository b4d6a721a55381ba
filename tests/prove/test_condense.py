"""What is kept of a history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from prove import condense
from prove.ledger import Ledger, Step
from prove.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def condensed(folder: Path, write: Callable[[Ledger], None]) -> list[dict[str, Any]]:
    with Recorder(folder) as recorder:
        ledger = Ledger(recorder.pipe, "actor")
        write(ledger)
        ledger.close()
    return [json.loads(line) for line in condense.lines([recorder.file])]


def usual(ledger: Ledger, number: int) -> None:
    ledger.note(Step.ATTEMPT, number)
    ledger.note(Step.ACKED, number)
    ledger.note(Step.DELIVERED, number, number + 100, 1, "billing")


def test_steps_are_counted_and_faults_kept(tmp_path: Path) -> None:
    def write(ledger: Ledger) -> None:
        for number in range(5):
            usual(ledger, number)
        ledger.note(Step.FAULT, 1, place="server_killed")

    found = condensed(tmp_path, write)
    assert sum(line.get("acked", 0) for line in found) == 5
    assert [line["fault"] for line in found if "fault" in line] == ["server_killed"]
    assert not [line for line in found if "story" in line]


def test_messages_with_more_than_the_usual_life_keep_their_story(tmp_path: Path) -> None:
    def write(ledger: Ledger) -> None:
        usual(ledger, 1)
        usual(ledger, 2)
        ledger.note(Step.DELIVERED, 2, 102, 2, "billing")
        ledger.note(Step.ATTEMPT, 3)
        ledger.note(Step.UNKNOWN, 3)
        # Two queues each deliver it once.
        usual(ledger, 4)
        ledger.note(Step.DELIVERED, 4, 104, 1, "statements")

    stories = {
        line["message"]: line["story"] for line in condensed(tmp_path, write) if "story" in line
    }
    assert set(stories) == {2, 3}
    assert [step for _, _, step, *_ in stories[2]] == ["attempt", "acked", "delivered", "delivered"]


def test_too_many_stories_are_sampled_over_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(condense, "STORIES", 10)

    def write(ledger: Ledger) -> None:
        for number in range(100):
            ledger.note(Step.UNKNOWN, number)

    kept = [line["message"] for line in condensed(tmp_path, write) if "story" in line]
    assert 5 <= len(kept) <= 10
    assert max(kept) > 80
