"""The machinery that feeds parsers: what it counts, what it calls a finding, what it sees hang."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from prove.attack import fuzzing, mutations, sabotage, targets, vectors
from prove.attack.fuzzing import Tally, watching
from prove.attack.targets import Target
from tests.sqs.running import ADMIN

LUCK = random.Random(7)


def _target(parse: object) -> Target:
    return Target("rehearsal", parse, (ValueError,), (b"{}",))  # type: ignore[arg-type]


def _fail(data: bytes) -> None:
    raise KeyError(data)


def _refuse(data: bytes) -> None:
    raise ValueError(data)


def _hang(data: bytes) -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("parse", "found", "refused"), [(len, 0, 0), (_refuse, 0, 1), (_fail, 1, 0)]
)
def test_only_what_is_not_documented_is_a_finding(parse: object, found: int, refused: int) -> None:
    tally = Tally()
    fuzzing.feed(_target(parse), b"x", tally)
    assert (tally.found, tally.refused) == (found, refused)


def test_a_parser_without_an_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "_LONGEST_SECONDS", 0.05)
    tally = Tally()
    with watching():
        fuzzing.feed(_target(_hang), b"x", tally)
    assert [finding.error.partition(":")[0] for finding in tally.findings.values()] == ["Hang"]


def test_a_seed_gives_the_same_inputs() -> None:
    one, other = (
        list(islice(mutations.inputs([b'{"a": [1, "x"]}'], random.Random(7)), 200))
        for _ in range(2)
    )
    assert one == other
    assert len(set(one)) > 100


@pytest.mark.parametrize("name", targets.every())
def test_every_parser_keeps_to_its_documented_errors(name: str) -> None:
    target, tally = targets.every()[name], Tally()
    with watching():
        for sample in target.samples:
            fuzzing.feed(target, sample, tally)
        fuzzing.mutate(target, 150, random.Random(name), tally)
        fuzzing.imagine(target, 5, 7, tally)
    assert list(tally.findings.values()) == []


def test_a_guard_that_is_gone_is_noticed() -> None:
    target, tally = targets.every()["sqs json"], Tally()
    with sabotage.unguarded_json(), watching():
        fuzzing.mutate(target, 200, random.Random(7), tally)
    assert tally.found > 0


def test_published_signatures_are_accepted_and_others_are_not() -> None:
    assert vectors.judge_published() == (len(vectors.PUBLISHED), 0)
    assert vectors.judge_hand_cases(ADMIN)[1] == []


def test_a_comparison_that_is_always_content_is_noticed() -> None:
    with sabotage.unchecked_signatures():
        assert vectors.judge_published()[1] == len(vectors.PUBLISHED)
