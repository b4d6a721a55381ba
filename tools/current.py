"""What every tool that writes files into the repository has in common: its command line.

python tools/….py            write what is out of date
python tools/….py --check    write nothing, and fail when something is
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ROOT = Path(__file__).resolve().parents[1]


def keep(
    about: str | None,
    wanted: Callable[[], Mapping[Path, str]],
    present: Callable[[], Iterable[Path]] = tuple,
) -> int:
    """Make the files as wanted; of those that are present, the others are removed."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if out of date")
    check = parser.parse_args().check
    files = wanted()
    stale = [path for path, text in files.items() if _text(path) != text]
    extra = sorted(set(present()) - files.keys())
    if check:
        for path in (*stale, *extra):
            name, tool = path.relative_to(ROOT), Path(sys.argv[0]).name
            print(f"{name} is out of date: run python tools/{tool}", file=sys.stderr)
        return int(bool(stale or extra))
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    for path in extra:
        path.unlink()
    return 0


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
