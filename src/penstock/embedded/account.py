"""The operating system's account under which the server runs.

PostgreSQL refuses to run as root.  Root therefore lends it another account and a folder which that
account can reach; every other user runs it under their own account.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from penstock.errors import EmbeddedServerError, FolderForbidden

if TYPE_CHECKING:
    from penstock.embedded.folder import Folder

# Root's home is closed to other accounts, so its servers are where those of services are.
_ROOT_DATA_DIR = Path("/var/lib/penstock")
_LENT_ACCOUNTS = ("postgres", "_postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """The account that runs the server; `lent` if it is not that of this process."""

    uid: int
    gid: int
    lent: bool

    @property
    def process_options(self) -> dict[str, Any]:
        """What subprocess needs to start a program as this account."""
        if not self.lent:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        """Give a path to this account."""
        if self.lent:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def default_data_dir() -> Path:
    """The user's data folder for Penstock."""
    if os.geteuid() == 0:
        return _ROOT_DATA_DIR
    return Path(platformdirs.user_data_dir("penstock", appauthor=False))


def of(place: Folder) -> Account:
    """The account for this folder, after making sure that it can reach the folder."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), lent=False)
    account = _owner_of_cluster(place.cluster) or lend()
    _open_way(place, account)
    return account


def current() -> Account:
    """The account for a server that has no folder yet."""
    return lend() if os.geteuid() == 0 else Account(os.geteuid(), os.getegid(), lent=False)


def _owner_of_cluster(cluster: Path) -> Account | None:
    try:
        owner = cluster.stat()
    except FileNotFoundError:
        return None
    return Account(owner.st_uid, owner.st_gid, lent=True) if owner.st_uid else None


def lend() -> Account:
    """An unprivileged account that exists on this machine."""
    for name in _LENT_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid, lent=True)
    raise EmbeddedServerError(
        "PostgreSQL refuses to run as root and this machine has no account named "
        f"{' or '.join(_LENT_ACCOUNTS)}: run as another user, or set PENSTOCK_DSN"
    )


def _open_way(place: Folder, account: Account) -> None:
    closed = first_closed(place.root.resolve(), account)
    if closed is not None:
        raise FolderForbidden(
            f"root's embedded server runs as uid {account.uid}, which may not enter {closed}\n"
            f"Choose a folder outside of it with PENSTOCK_DATA_DIR, or chmod a+x {closed}.",
            folder=place.root,
        )


def first_closed(path: Path, account: Account) -> Path | None:
    """The first folder on the way to `path` that the account may not enter."""
    way = [*reversed(path.parents), path] if path.is_dir() else list(reversed(path.parents))
    return next((step for step in way if not _may_enter(step, account)), None)


def _may_enter(step: Path, account: Account) -> bool:
    found = step.stat()
    if found.st_uid == account.uid:
        return bool(found.st_mode & 0o100)
    if found.st_gid == account.gid:
        return bool(found.st_mode & 0o010)
    return bool(found.st_mode & 0o001)
