"""The data folder: where everything is in it, and whether it can be used."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import FolderDamaged, FolderForbidden, FolderFull, FolderOfOtherVersion

if TYPE_CHECKING:
    from pathlib import Path

# The lock file of a folder outlives a fresh cluster's failed creation, hence the layer above it.
_ESSENTIAL = ("global/pg_control", "base", "pg_wal", "postgresql.conf")


@dataclass(frozen=True, slots=True)
class Folder:
    """The names inside a data folder."""

    root: Path

    @property
    def cluster(self) -> Path:
        """PostgreSQL's own data directory."""
        return self.root / "postgres"

    @property
    def fresh_cluster(self) -> Path:
        """Where a cluster is made, before it is moved into its place in one step."""
        return self.root / "postgres.new"

    @property
    def run(self) -> Path:
        """Where the socket is, unless this path is too long for one."""
        return self.root / "run"

    @property
    def log(self) -> Path:
        return self.root / "server.log"

    @property
    def lifecycle_lock(self) -> Path:
        return self.root / "lifecycle.lock"

    @property
    def users_lock(self) -> Path:
        return self.root / "users.lock"


def prepare(place: Folder) -> None:
    """Make the folder, or say why it can't be used."""
    try:
        place.root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FolderForbidden(
            f"{place.root} is not a folder: choose another with PENSTOCK_DATA_DIR",
            folder=place.root,
        ) from None
    except OSError as exc:
        raise unusable(place, exc) from exc
    _refuse_foreign_cluster(place)
    _require_access(place)


def _refuse_foreign_cluster(place: Folder) -> None:
    if (place.root / "PG_VERSION").exists():
        raise FolderForbidden(
            f"{place.root} is another PostgreSQL server's data directory: choose an empty folder "
            "with PENSTOCK_DATA_DIR, or reach that server with PENSTOCK_DSN",
            folder=place.root,
        )


def _require_access(place: Folder) -> None:
    for path in (place.root, place.cluster):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise _forbidden(place, f"you may not write in {path}")


def require_owner(place: Folder, uid: int) -> None:
    """Raise unless the cluster is this account's alone, as PostgreSQL demands."""
    found = place.cluster.stat()
    if found.st_uid != uid:
        raise _forbidden(place, f"{place.cluster} belongs to uid {found.st_uid}, not to {uid}")
    if stat.S_IMODE(found.st_mode) & 0o027:
        raise _forbidden(place, f"{place.cluster} is open to others, make it chmod 0700")


def unusable(place: Folder, exc: OSError) -> FolderFull | FolderForbidden:
    """The error for a file that could not be written in the folder."""
    return full(place) if is_full(exc) else _forbidden(place, str(exc))


def is_full(exc: OSError) -> bool:
    """Whether this is what the system says when a disk, or a user's share of it, is used up."""
    return exc.errno in (errno.ENOSPC, errno.EDQUOT)


def _forbidden(place: Folder, reason: str) -> FolderForbidden:
    return FolderForbidden(
        f"the data folder {place.root} can't be used: {reason}\n"
        "Mend its owner and permissions, or choose another folder with PENSTOCK_DATA_DIR.",
        folder=place.root,
    )


def full(place: Folder) -> FolderFull:
    """The error for a disk that is full."""
    return FolderFull(
        f"the disk that holds {place.root} is full\n"
        "Make room, or choose a folder on another disk with PENSTOCK_DATA_DIR; no data was lost.",
        folder=place.root,
    )


def damaged(place: Folder, reason: str) -> FolderDamaged:
    """The error for a cluster that PostgreSQL can't use."""
    return FolderDamaged(
        f"the embedded server's data in {place.cluster} is damaged: {reason}\n"
        "Restore the folder from a backup; or, if its messages may be lost, delete "
        f"{place.cluster} and start again.",
        folder=place.root,
    )


def inspect(place: Folder, major: int) -> None:
    """Raise unless the existing cluster is complete and of this major version."""
    try:
        found = (place.cluster / "PG_VERSION").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise damaged(place, "PG_VERSION is missing") from None
    except UnicodeDecodeError:
        raise damaged(place, "PG_VERSION is unreadable") from None
    except OSError as exc:
        raise unusable(place, exc) from exc
    if not found.isdigit():
        raise damaged(place, f"PG_VERSION says {found!r}")
    if int(found) != major:
        raise _other_version(place, int(found), major)
    for name in _ESSENTIAL:
        if not (place.cluster / name).exists():
            raise damaged(place, f"{name} is missing")


def _other_version(place: Folder, found: int, major: int) -> FolderOfOtherVersion:
    return FolderOfOtherVersion(
        f"the data in {place.cluster} belongs to PostgreSQL {found}, this package has "
        f"PostgreSQL {major}\n"
        f"Carry it over with pg_dumpall of version {found}, install the older package again, or "
        "choose another folder with PENSTOCK_DATA_DIR.",
        folder=place.root,
    )
