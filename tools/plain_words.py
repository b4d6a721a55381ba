"""Find what makes a text hard to read, in code, SQL and docs: odd words and long lines of prose.

    python tools/plain_words.py             list every place
    python tools/plain_words.py src/penstock/worker    only there

A process, a session or a role is named by its technical word.  Words in names and in quoted code
don't count.  Prose has 120 columns at most; tables, code, headings and generated pages may have
more.  Exit code 1: something was found.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("src", "sql", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
KINDS = {".py", ".sql", ".md", ".html"}

#: A word that is hard to read, as a regular expression, and what to write instead.
INSTEAD = {
    "nobody": "no consumer, no session, no process",
    "somebody": "a consumer, a session, a process",
    "whoever": "the consumer, the session or the process that",
    "anybody": "any consumer, any session, any role",
    "everybody": "all consumers, all sessions, all roles",
    "sleepers?": "consumers that wait",
    "ceremony": "what it does besides",
    "seldom(?:er)?": "rarely, less often",
    "someone|anyone|everyone|no one": "a consumer, a session, a user",
    "deeds?": "action, audit entry",
    "naps?|asleep": "pause, waits",
    "goodbye|last words": "the message that is meant",
    "crowds?": "many consumers, many messages",
    "solitude": "quarantine",
}
_WORD = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b", re.IGNORECASE)
#: The account of the operating system has this name.
_QUOTED = re.compile(r"`[^`]*`|\"nobody\"")


#: Columns that a line of prose may have.
WIDTH = 120
#: Pages that a program writes, each from texts of its own.
GENERATED = ("docs/reference/", "docs/proof.md", "docs/internals/mysql-statements.md")
_FENCE = re.compile(r"\s*(```|~~~)")
_MARKER = re.compile(r"\s*(?:[-*+>]\s|\d+\.\s)?\s*")
_NOT_PROSE = re.compile(r"\s*(\||#|<|\[[^\]]+\]:)")


@dataclass(frozen=True, slots=True)
class Place:
    path: Path
    line: int
    fault: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.fault}"


def instead(word: str) -> str:
    """What to write for a word that was found."""
    return next(text for form, text in INSTEAD.items() if re.fullmatch(form, word.lower()))


def found_in(path: Path, text: str) -> Iterator[Place]:
    for number, line in enumerate(text.splitlines(), start=1):
        for match in _WORD.finditer(_QUOTED.sub("", line)):
            word = match.group()
            yield Place(path, number, f"{word!r}: say {instead(word)}")
    if not path.as_posix().startswith(GENERATED):
        for number, line in prose(path, text):
            # A long link can't be broken.
            if len(line) > WIDTH and " " in _MARKER.sub("", line, count=1)[:WIDTH]:
                yield Place(path, number, f"{len(line)} columns: {WIDTH} at most")


def prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file that are sentences: the linter looks after Python's."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if path.suffix == ".md":
            fence = _FENCE.match(line)
            fenced ^= fence is not None
            if not fenced and fence is None and not _NOT_PROSE.match(line):
                yield number, line
        elif path.suffix == ".sql" and line.lstrip().startswith("--"):
            yield number, line


def files(places: Iterable[str]) -> Iterator[Path]:
    for place in places:
        start = ROOT / place
        if not start.exists():
            raise SystemExit(f"there is no {place}")
        inside = sorted(start.rglob("*")) if start.is_dir() else [start]
        yield from (path for path in inside if path.suffix in KINDS)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="*", default=PLACES, help="files and folders")
    places = parser.parse_args(words).places
    found = [
        place
        for path in files(places)
        for place in found_in(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    ]
    print("\n".join(map(str, found)), end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
