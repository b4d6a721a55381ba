"""Where test servers keep their data."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 - folders below it are made by mkdtemp
_ROOM = 4 * 1024**3


def parent() -> Path | None:
    """A folder in memory where there is one with room, or None for the usual temporary one.

    Copying a database is copying its files, some three hundred: on a busy disk that takes longer
    than most tests.  TMPDIR, if it is set, is not overruled.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return None
    if os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC or shutil.disk_usage(_MEMORY).free < _ROOM:
        return None
    return _MEMORY
