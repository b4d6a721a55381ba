"""Parts of the attack at a small size, each with its twin."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from prove.attack.forging import flipped, meaning
from prove.attack.hostile_names import INJECTIONS, hostile_names
from prove.attack.leaks import search
from prove.harness import play
from prove.parts import PARTS

if TYPE_CHECKING:
    from pathlib import Path

REQUEST = (
    b"POST /?a=%2f HTTP/1.1\r\nhost: h\r\naccept: x\r\nauthorization: AWS4-HMAC-SHA256 "
    b"Credential=a/b, SignedHeaders=host, Signature=0\r\n\r\nbody"
)


@pytest.mark.parametrize("name", ["signatures"])
def test_attack_is_withstood_and_its_twin_caught(name: str, tmp_path: Path) -> None:
    report = play(PARTS[name], 7, quick=True, out=tmp_path, say=print)
    assert report.status == "kept", report


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (b"%2f", b"%2F", True),
        (b"host:", b"Host:", True),
        (b"accept: x", b"accept: y", True),
        (b"%2f", b"%2e", False),
        (b"host: h", b"host: i", False),
        (b"body", b"cody", False),
        (b"POST", b"QOST", False),
        (b"Signature=0", b"Signature=1", False),
    ],
)
def test_meaning_is_what_was_signed(old: bytes, new: bytes, same: bool) -> None:
    assert (meaning(REQUEST.replace(old, new)) == meaning(REQUEST)) is same


def test_one_bit_is_changed() -> None:
    changed = flipped(REQUEST, random.Random(7))
    different = [a ^ b for a, b in zip(REQUEST, changed, strict=True) if a != b]
    assert [each.bit_count() for each in different] == [1]


def test_names_are_hostile_and_each_comes_once() -> None:
    names = hostile_names(500, random.Random(7))
    assert len(names) == len(set(names)) == 500
    assert set(INJECTIONS) <= set(names)


def test_a_secret_in_a_file_is_found(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text("a line\nuser=x password=hush\n", encoding="utf-8")
    assert search([log], ["hush", "other"]) == ["log.txt: hush: user=x password=hush"]
