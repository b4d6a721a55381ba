"""The real `penstock` command, run as a person or a script runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("penstock")


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
    """Runs commands against one database, which it names by PENSTOCK_DSN."""

    dsn: str | None

    def __call__(self, *words: str, stdin: str = "", **environ: str) -> Ran:
        done = subprocess.run(
            [PROGRAM, *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=self.environment(environ),
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    def ok(self, *words: str, stdin: str = "", **environ: str) -> Ran:
        ran = self(*words, stdin=stdin, **environ)
        assert ran.code == 0, ran.err + ran.out
        return ran

    def start(self, *words: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(environ),
        )

    @staticmethod
    def lines_of(out: str) -> list[Any]:
        return Ran(0, out, "").lines

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        kept = {name: v for name, v in os.environ.items() if not name.startswith("PENSTOCK_")}
        named = {} if self.dsn is None else {"PENSTOCK_DSN": self.dsn}
        return kept | named | {"COLUMNS": "100"} | more
