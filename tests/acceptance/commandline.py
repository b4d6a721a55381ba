"""The real `penstock` command, run as a person or a script runs it."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

PROGRAM = Path(sys.executable).with_name("penstock")
_FORKED = Path(__file__).with_name("forked.py")
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Runs commands against one database, which it names by PENSTOCK_DSN.

    A command that is called runs in a fork of a process that has imported most of it already; with
    variables of the environment it runs as a new program, for an import may read them.  A command
    that is started is always a new program.
    """

    dsn: str | None

    def __call__(self, *words: str, stdin: str = "", **environ: str) -> Ran:
        run = _run_program if environ else _run_forked
        ran = run(list(words), stdin, self.environment(environ))
        assert "Traceback" not in ran.err, ran.err
        return ran

    def ok(self, *words: str, stdin: str = "", **environ: str) -> Ran:
        ran = self(*words, stdin=stdin, **environ)
        assert ran.code == 0, ran.err + ran.out
        return ran

    def start(
        self, *words: str, start_new_session: bool = False, **environ: str
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(environ),
            start_new_session=start_new_session,
        )

    @staticmethod
    def lines_of(out: str) -> list[Any]:
        return Ran(0, out, "").lines

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        kept = {name: v for name, v in os.environ.items() if not name.startswith("PENSTOCK_")}
        named = {} if self.dsn is None else {"PENSTOCK_DSN": self.dsn}
        return kept | named | {"COLUMNS": "100"} | more


def _run_program(words: list[str], stdin: str, environ: dict[str, str]) -> Ran:
    done = subprocess.run(
        [PROGRAM, *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env=environ,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def _run_forked(words: list[str], stdin: str, environ: dict[str, str]) -> Ran:
    argv = [str(PROGRAM), *words]
    with ExitStack() as kept:
        request = kept.enter_context(tempfile.TemporaryFile("w+"))
        json.dump({"argv": argv, "environ": environ, "folder": str(Path.cwd())}, request)
        request.flush()
        child_in, our_in = os.pipe()
        to_child = kept.enter_context(os.fdopen(our_in, "w", encoding="utf-8"))
        (our_out, child_out), (our_err, child_err), (our_report, child_report) = (
            os.pipe() for _ in range(3)
        )
        out, err, report = (
            kept.enter_context(os.fdopen(each, encoding="utf-8"))
            for each in (our_out, our_err, our_report)
        )
        theirs = [child_in, child_out, child_err, child_report]
        socket.send_fds(_forks(), [b"1"], [request.fileno(), *theirs])
        for each in theirs:
            os.close(each)
        pid = int(report.readline())
        threads = kept.enter_context(ThreadPoolExecutor(3))
        try:
            threads.submit(_write, to_child, stdin)
            outputs = [threads.submit(each.read) for each in (out, err)]
            said = [each.result(timeout=_SECONDS) for each in outputs]
            return Ran(int(report.readline()), *said)
        except BaseException:
            # The end of the child ends the threads too.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise


def _write(pipe: IO[str], text: str) -> None:
    # A command need not read its input to the end.
    with suppress(BrokenPipeError), pipe:
        pipe.write(text)


@cache
def _forks() -> socket.socket:
    """Where to send requests to the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-P", _FORKED, str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
