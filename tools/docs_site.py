"""A hook of MkDocs (mkdocs.yml): what the site has besides the pages under docs/.

The navigation is that of docs/README.md, section by section, so that there is one list of pages.
The documentation links to files elsewhere in the repository; each of them becomes a page of the
site: another Markdown page as it is, a program as its source.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"(^```.*?^```\s*?$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^()\s#]+)(?P<anchor>#[^()\s]*)?\)")
_SECTION = re.compile(r"^\*\*(?P<title>.+)\*\*$")
_LIST = re.compile(r"^- .+$", re.MULTILINE)
_CONTINUED = re.compile(r"\n +(?=[^\s-])")
_ENTRY = re.compile(r"\[(?P<title>[^\[\]]+)\]\((?P<target>[^()\s#]+\.md)\)")
_LANGUAGES = {".py": "python", ".sql": "sql", ".sh": "sh", ".toml": "toml", ".json": "json"}
_COPIED = {".png", ".svg", ".json"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = list(_navigation((DOCS / "README.md").read_text(encoding="utf-8")))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in _linked():
        files.append(_file(path, config))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    here = page.file.src_uri
    return _rewritten(markdown, _origin(here), here)


def _navigation(index: str) -> Iterator[dict[str, Any]]:
    yield {"Overview": "README.md"}
    section: list[dict[str, str]] = []
    for line in _unwrapped(index).splitlines():
        if heading := _SECTION.match(line):
            section = []
            yield {heading["title"]: section}
        section += _entries(line, DOCS)


def _entries(text: str, folder: Path) -> Iterator[dict[str, str]]:
    for entry in _ENTRY.finditer("\n".join(_LIST.findall(_unwrapped(text)))):
        page = (folder / entry["target"]).resolve()
        if not page.is_relative_to(DOCS):
            continue
        yield {entry["title"].replace("`", ""): _uri(page)}
        if page.name == "README.md":
            # A folder with an index of its own.
            yield from _entries(page.read_text(encoding="utf-8"), page.parent)


def _unwrapped(text: str) -> str:
    """Each item of a list on one line."""
    return _CONTINUED.sub(" ", text)


def _linked() -> set[Path]:
    """The files outside of docs/ that its pages link to, and that those link to."""
    found: set[Path] = set()
    unread = sorted(DOCS.rglob("*.md"))
    while unread:
        page = unread.pop()
        for target in _targets(page):
            if target.is_file() and DOCS not in target.parents and target not in found:
                found.add(target)
                unread += [target] if target.suffix == ".md" else []
    return found


def _targets(page: Path) -> Iterator[Path]:
    for part in _prose(page.read_text(encoding="utf-8")):
        for link in _LINK.finditer(part):
            if "://" not in link["target"]:
                yield (page.parent / link["target"]).resolve()


def _prose(text: str) -> list[str]:
    return _FENCE.split(text)[::2]


def _file(path: Path, config: MkDocsConfig) -> File:
    if path.suffix == ".md" or path.suffix in _COPIED:
        return File.generated(config, _uri(path), abs_src_path=str(path))
    text = path.read_text(encoding="utf-8")
    language = _LANGUAGES.get(path.suffix, "text")
    name = path.relative_to(ROOT).as_posix()
    return File.generated(config, _uri(path), content=f"# {name}\n\n````{language}\n{text}\n````\n")


def _uri(path: Path) -> str:
    """Where a file of the repository stands in the site."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    return f"project/{name}" if path.suffix in _COPIED | {".md"} else f"project/{name}.md"


def _origin(uri: str) -> Path:
    """The file of the repository that a page was made from."""
    inside = DOCS / uri
    if inside.exists():
        return inside
    outside = ROOT / uri.removeprefix("project/")
    return outside if outside.exists() else outside.with_suffix("")


def _rewritten(markdown: str, origin: Path, here: str) -> str:
    def moved(link: re.Match[str]) -> str:
        target = (origin.parent / link["target"]).resolve()
        if "://" in link["target"] or not target.is_file() or not target.is_relative_to(ROOT):
            return link[0]
        uri = posixpath.relpath(_uri(target), posixpath.dirname(here) or os.curdir)
        return f"{link['before']}{uri}{link['anchor'] or ''})"

    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(moved, part) for part in parts[::2]]
    return "".join(parts)
