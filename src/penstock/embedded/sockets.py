"""A folder for the server's Unix socket: short enough, and closed to other accounts."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.embedded.folder import unusable
from penstock.errors import FolderBusy, SocketPathTooLong

if TYPE_CHECKING:
    from penstock.embedded.account import Account
    from penstock.embedded.folder import Folder

PORT = 5432
# The smallest limit among the systems that have wheels (macOS), less the final zero.
LONGEST = 103


def choose(place: Folder, account: Account) -> Path:
    """The folder itself if its path is short enough, else one in a folder for temporary files."""
    for candidate in _candidates(place, account):
        if _fits(candidate):
            _make(candidate, place, account)
            return candidate
    raise SocketPathTooLong(
        f"the path of {place.root} is too long for a Unix socket, and so is that of the folder for "
        "temporary files: choose a shorter folder with PENSTOCK_DATA_DIR or TMPDIR",
        folder=place.root,
    )


def _candidates(place: Folder, account: Account) -> tuple[Path, ...]:
    digest = hashlib.sha256(os.fsencode(place.root.resolve())).hexdigest()[:16]
    name = f"penstock-{account.uid}-{digest}"
    return (place.run.absolute(), Path(tempfile.gettempdir()) / name, Path("/tmp") / name)  # noqa: S108


def _fits(candidate: Path) -> bool:
    return len(os.fsencode(candidate / f".s.PGSQL.{PORT}.lock")) <= LONGEST


def _make(candidate: Path, place: Folder, account: Account) -> None:
    try:
        candidate.mkdir(mode=0o700, exist_ok=True)
        if candidate.lstat().st_uid == os.geteuid():
            account.own(candidate)
    except OSError as exc:
        raise unusable(place, exc) from exc
    _require_private(candidate, account, place)


def _require_private(candidate: Path, account: Account, place: Folder) -> None:
    # If another user owned the folder, or it were a link, they could answer for the server.
    found = candidate.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid:
        raise FolderBusy(f"{candidate} is in the way: remove it", folder=place.root)
    if stat.S_IMODE(found.st_mode) & 0o077:
        candidate.chmod(0o700)


def clear(folder: Path) -> None:
    """Remove what a server that is gone left behind."""
    for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
        (folder / name).unlink(missing_ok=True)
