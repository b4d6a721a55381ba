"""The tool that finds words which make a text hard to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import plain_words

HERE = Path("some.py")


def test_a_word_is_found_with_its_line_and_what_to_write_instead() -> None:
    text = "# one\n# Somebody waits, nobody comes."
    assert [str(place) for place in plain_words.found_in(HERE, text)] == [
        "some.py:2: 'Somebody': say a consumer, a session, a process",
        "some.py:2: 'nobody': say no consumer, no session, no process",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "the account `nobody`",
        'known = ("postgres", "nobody")',
        "nobodys = 1",
        "one consumer waits",
    ],
)
def test_names_and_other_words_are_not_found(text: str) -> None:
    assert list(plain_words.found_in(HERE, text)) == []


LONG = "a sentence that goes on " * 6
LINK = f"[a]({'x' * 130})"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/page.md", LONG),
        ("docs/page.md", f"```\ncode\n```\n- {LONG}"),
        ("sql/some.sql", f"  -- {LONG}"),
    ],
)
def test_a_long_line_of_prose_is_found(name: str, text: str) -> None:
    [place] = plain_words.found_in(Path(name), text)
    assert place.line == len(text.splitlines())
    assert "120 at most" in place.fault


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/page.md", f"```\n{LONG}\n```"),
        ("docs/page.md", f"| {LONG} |"),
        ("docs/page.md", f"# {LONG}"),
        ("docs/page.md", f"- {LINK}"),
        ("docs/proof.md", LONG),
        ("docs/reference/sql.md", LONG),
        ("sql/some.sql", f"select '{LONG}'"),
        ("src/some.py", f"# {LONG}"),
    ],
)
def test_other_lines_may_be_long(name: str, text: str) -> None:
    assert list(plain_words.found_in(Path(name), text)) == []


def test_a_found_word_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plain_words, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "page.md"
    page.write_text("Whoever reads this.\n")
    assert plain_words.main(["docs"]) == 1
    assert capsys.readouterr().out.startswith("docs/page.md:1: 'Whoever'")
    page.write_text("The consumer that reads this.\n")
    assert plain_words.main(["docs"]) == 0


def test_a_place_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(SystemExit, match="there is no nowhere"):
        plain_words.main(["nowhere"])
