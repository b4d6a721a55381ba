"""The process that keeps a history: `python -m prove.recorder PIPE FILE`, until SIGTERM.

`Recorder` starts it and ends it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[1]
_CHUNK = 65536
_PATIENCE_SECONDS = 60


class Recorder:
    """A pipe for actors to write to, and the file that another process appends it to."""

    def __init__(self, folder: Path, name: str = "history") -> None:
        self.pipe = folder / f"{name}.pipe"
        self.file = folder / f"{name}.log"
        os.mkfifo(self.pipe)
        self.file.touch()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "prove.recorder", str(self.pipe), str(self.file)]
        # In a session of its own: Ctrl-C is for the programme, which ends its recorder last.
        with self.file.with_name("recorder.txt").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._await_listening()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def _await_listening(self) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                os.close(os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise RuntimeError("the recorder of the history does not begin")

    def finish(self) -> None:
        """Have everything written that is in the pipe; actors must have ended."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        if process.wait(timeout=_PATIENCE_SECONDS):
            raise RuntimeError("the recorder of the history failed: the run tells nothing")


def keep(pipe: Path, file: Path) -> None:
    """Append what comes until told to stop, and then what is left."""
    stop, tell = os.pipe()
    # The interpreter writes to it when a signal comes.  A handler in Python would be too late for
    # a signal that comes just before select(): it runs when select() returns.
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell)
    signal.signal(signal.SIGTERM, lambda *_: None)
    # Open for writing too: else the pipe would end when its last actor does.
    source = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with file.open("ab", buffering=0) as history:
        while True:
            ready, _, _ = select.select([source, stop], [], [])
            _drain(source, history.fileno())
            if stop in ready:
                return


def _drain(source: int, target: int) -> None:
    while True:
        try:
            data = os.read(source, _CHUNK)
        except BlockingIOError:
            return
        while data:
            data = data[os.write(target, data) :]


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
