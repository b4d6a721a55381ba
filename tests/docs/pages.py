"""The pages of the documentation as values: their code blocks, links and headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "reference"

_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>\S.*?) -->")
_FENCE = re.compile(r"^```(?P<language>\w*)\s*$")
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its lines, and the page's line on which the first stands."""

    language: str
    lines: tuple[str, ...]
    first_line: int
    not_run: str | None


@dataclass(frozen=True, slots=True)
class Link:
    text: str
    target: str


@dataclass(frozen=True, slots=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def blocks(self, *languages: str) -> list[Block]:
        return [block for block in _blocks(self.text) if block.language in languages]

    @property
    def prose(self) -> str:
        """The page without its code."""
        return re.sub(r"^```.*?^```", "", self.text, flags=re.MULTILINE | re.DOTALL)

    @property
    def links(self) -> list[Link]:
        return [Link(found["text"], found["target"]) for found in _LINK.finditer(self.prose)]

    @property
    def anchors(self) -> set[str]:
        return {_slug(title) for title in re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)}


def promises(page: Page, language: str, comment: str) -> list[str]:
    """What the page's examples promise to print: comments such as `-- → 7` behind a statement."""
    mark = re.compile(rf"{re.escape(comment)} → (.+)$")
    return [
        found[1].strip()
        for block in page.blocks(language)
        if block.not_run is None
        for line in block.lines
        if (found := mark.search(line))
    ]


def left_out(language: str) -> list[str]:
    """Where the examples are that don't run."""
    return [
        f"{page.name}:{block.first_line}"
        for page in written_pages()
        for block in page.blocks(language)
        if block.not_run is not None
    ]


@cache
def every_page() -> list[Page]:
    """README, changelog, contributing guide, and everything under docs/."""
    top = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    return [Page(path) for path in (*top, *sorted((ROOT / "docs").rglob("*.md")))]


def written_pages() -> list[Page]:
    """The pages that people write and whose examples run."""
    return [page for page in every_page() if GENERATED not in page.path.parents]


def _blocks(text: str) -> list[Block]:
    found: list[Block] = []
    language: str | None = None
    lines: list[str] = []
    reason: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if language is None and fence is not None:
            language, lines, begin = fence["language"], [], number + 1
        elif language is not None and line.startswith("```"):
            found.append(Block(language, tuple(lines), begin, reason))
            language, reason = None, None
        elif language is not None:
            lines.append(line)
        elif line.strip():
            mark = _NOT_RUN.search(line)
            reason = mark["reason"] if mark else None
    assert language is None, "a code block without an end"
    return found


def _slug(title: str) -> str:
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
