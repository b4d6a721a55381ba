"""File systems in files: small disks that can be filled, and frozen at any moment.

Root and loop devices are needed; `why_not` says what is missing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
# linux/fs.h: share the blocks of one file with another, as one step.
_FICLONE = 0x40049409
MIB = 1024 * 1024


def why_not(*programs: str) -> str:
    """Why this machine can't have such disks; empty when it can."""
    if os.geteuid() != 0:
        return "loop devices need root"
    if not Path("/dev/loop-control").exists():
        return "this machine has no loop devices"
    for program in ("losetup", "mount", "umount", *programs):
        if shutil.which(program, path=_SEARCHED) is None:
            return f"{program} is not installed: sh tools/debian_packages.sh"
    return ""


@contextmanager
def disk(image: Path, at: Path, *, kind: str, mib: int) -> Iterator[Path]:
    """A new file system of that kind and size in a file, mounted."""
    with image.open("wb") as file:
        file.truncate(mib * MIB)
    quiet = ["-q"] if kind in ("ext4", "xfs") else []
    # Every block at once: what initialises itself in the background would disturb the counts.
    options = ["-E", "lazy_itable_init=0,lazy_journal_init=0"] if kind == "ext4" else []
    _run(f"mkfs.{kind}", *quiet, *options, str(image))
    with mounted(image, at) as place:
        yield place


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """The file system in a file, on a loop device of its own."""
    at.mkdir(parents=True, exist_ok=True)
    device = _run("losetup", "--find", "--show", str(image)).strip()
    try:
        _run("mount", device, str(at))
        try:
            yield at
        finally:
            _unmount(at)
    finally:
        _run("losetup", "--detach", device)


def freeze(source: Path, copy: Path) -> None:
    """A copy of the file as it is at one moment, while others write to it."""
    with source.open("rb") as old, copy.open("wb") as new:
        fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())


def settle(place: Path) -> None:
    """Have everything on the file system written to its device."""
    _run("sync", "--file-system", str(place))


def _unmount(at: Path) -> None:
    # A process that was just ended may hold a file for a moment.
    for _ in range(50):
        if not _try("umount", str(at)):
            return
        time.sleep(0.1)
    _run("umount", "--lazy", str(at))


def _try(*command: str) -> int:
    return subprocess.run(
        command, capture_output=True, check=False, env={**os.environ, "PATH": _SEARCHED}
    ).returncode


def _run(*command: str) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": _SEARCHED},
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
