"""Why PostgreSQL did not start, told from what it wrote."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

from penstock.embedded import folder
from penstock.errors import EmbeddedServerError, FolderBusy, FolderForbidden

if TYPE_CHECKING:
    from penstock.embedded.folder import Folder

# With the SQLSTATE in every line there is no need to understand the words.
LOG_LINE_PREFIX = "%m [%p] %e "
_LINE = re.compile(r"\[\d+\] (?P<code>[0-9A-Z]{5}) (?P<level>FATAL|PANIC): +(?P<text>.*)")
_NO_SPACE = os.strerror(errno.ENOSPC)


def explain(place: Folder, written: str) -> EmbeddedServerError:
    """The error for a server that wrote this and did not come up."""
    last = next(reversed(list(_LINE.finditer(written))), None)
    if _NO_SPACE in written or (last and last["code"] == "53100"):
        return folder.full(place)
    if last is None:
        return _unexplained(place, written)
    match last["code"]:
        case "F0001":
            return _busy(place, last["text"])
        case "42501":
            return _forbidden(place, last["text"])
        case "55000" | "XX000" | "XX001" | "XX002" | "58P01" | "58030":
            return folder.damaged(place, last["text"])
        case _:
            return _unexplained(place, written)


def _busy(place: Folder, text: str) -> FolderBusy:
    return FolderBusy(
        f"another server seems to use {place.cluster}: {text}\n"
        "Stop it, or choose another folder with PENSTOCK_DATA_DIR.",
        folder=place.root,
    )


def _forbidden(place: Folder, text: str) -> FolderForbidden:
    return FolderForbidden(
        f"PostgreSQL may not use the folder {place.cluster}: {text}\n"
        "Everything in it must belong to the account that runs the server.",
        folder=place.root,
    )


def _unexplained(place: Folder, written: str) -> EmbeddedServerError:
    tail = "\n".join(written.strip().splitlines()[-5:])
    return EmbeddedServerError(
        f"the embedded PostgreSQL did not start; its log is {place.log}\n{tail}", folder=place.root
    )
