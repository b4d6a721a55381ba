"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

python tools/lowest_versions.py > build/lowest.txt          of the dependencies and the usual extras
python tools/lowest_versions.py --extra spark               of the dependencies and one extra
pip install --constraint build/lowest.txt --editable '.[dev]'

`make test-lowest` runs the tests with them.  Tools of the developers (dev, bench, prove) are not
pinned: no installation of Penstock depends on them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
#: Spark is large, and its lowest versions have a Java of their own: on request only.
LEFT_OUT = ("bench", "dev", "prove", "spark")

_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(\[[\w,-]+\])?\s*(?P<bounds>[^;]*)(?P<marker>;.*)?", re.ASCII
)
_LOWER = re.compile(r">=\s*(?P<version>[\w.]+)")


def pins(project: dict[str, Any], extras: Sequence[str] = ()) -> Iterator[str]:
    """A line `name==version` for every requirement; ValueError for one without a lower bound."""
    offered: dict[str, list[str]] = project["optional-dependencies"]
    chosen = extras or [name for name in offered if name not in LEFT_OUT]
    wanted = [*project["dependencies"], *(each for name in chosen for each in offered[name])]
    return iter(sorted({_pin(requirement) for requirement in wanted}))


def _pin(requirement: str) -> str:
    found = _REQUIREMENT.fullmatch(requirement)
    lower = _LOWER.search(found["bounds"]) if found else None
    if found is None or lower is None:
        raise ValueError(f"{requirement!r} has no lower bound: write name>=version")
    return f"{found['name']}=={lower['version']}{found['marker'] or ''}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extra", action="append", default=[], help="only this; may be repeated")
    given = parser.parse_args(words)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print(*pins(project, given.extra), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
