"""Plays parts: each as it should be, then its sabotaged twin on the same seed."""

from __future__ import annotations

import shutil
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from prove import environment, record
from prove.model import Outcome, Report, Take

if TYPE_CHECKING:
    from collections.abc import Callable

    from prove.model import Part


UNFINISHED = "did not come to an end"
#: Condensed histories; git ignores the folder.
HISTORIES = Path("build/prove/histories")


def play(
    part: Part,
    seed: int,
    *,
    quick: bool,
    out: Path,
    say: Callable[[str], None],
    keep_history: bool = False,
    histories: Path = HISTORIES,
) -> Report:
    """Play a part and its twin, and write down what was found.

    A part that is not kept leaves its history in `histories`; `keep_history` is for the others.
    """
    before = environment.seen()
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"penstock-prove-{part.name}-"))
    # The servers run under another account.
    folder.chmod(0o755)
    honest = _take(part, folder / "honest", seed, quick=quick, sabotaged=False, say=say)
    twin = None
    if part.breaks and not honest.skipped:
        say(f"{part.name}: the twin ({part.sabotage})")
        twin = _take(part, folder / "twin", seed, quick=quick, sabotaged=True, say=say)
    report = Report(part, seed, quick, time.monotonic() - started, honest, twin, before)
    record.write(out, report)
    failed = report.status not in ("kept", "skipped")
    if failed or keep_history:
        logs = sorted((folder / "honest").glob("history*.log"))
        if packed := record.pack(histories, report, logs):
            say(f"{part.name}: its history is in {packed}")
    if not failed:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        say(f"{part.name}: {report.status}; logs are in {folder}")
    return report


def _take(
    part: Part,
    folder: Path,
    seed: int,
    *,
    quick: bool,
    sabotaged: bool,
    say: Callable[[str], None],
) -> Outcome:
    folder.mkdir()
    folder.chmod(0o755)
    take = Take(seed, quick, sabotaged, folder, lambda text: say(f"{part.name}: {text}"))
    try:
        return part.play(take)
    except Exception as error:  # noqa: BLE001 - the other parts are played all the same
        (folder / "failure.txt").write_text(traceback.format_exc(), encoding="utf-8")
        take.say(f"did not come to an end: {error!r}")
        return Outcome(broken={UNFINISHED: 1})
