"""Parsers under atheris, which looks for inputs that reach new code.

python -m prove.attack.guided MODULE RUNS SEED FOLDER       all targets of a module

libFuzzer ends the process itself, so findings are written as they come.
"""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("sqs_targets", "client_targets", "operator_targets")
_FINDINGS = "guided.jsonl"
# A run of one parser takes minutes at most; more means that it hangs.
_PATIENCE_SECONDS = 900


def available() -> bool:
    """Whether atheris is there: it has wheels for some versions of Python on Linux only."""
    return find_spec("atheris") is not None


def run(module: str, runs: int, seed: int, folder: Path) -> tuple[int, list[str]]:
    """Inputs tried, and what was found, a line each."""
    folder.mkdir()
    command = [sys.executable, "-m", "prove.attack.guided", module, str(runs), str(seed)]
    done = subprocess.run(
        [*command, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    (folder / "output.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    found = folder / _FINDINGS
    lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    ended = re.search(r"Done (\d+) runs", done.stderr)
    if ended is None:
        lines.append(f"{module}: the run ended early, see {folder / 'output.txt'}")
    return int(ended[1]) if ended else 0, lines


def main(words: Sequence[str]) -> None:
    name, runs, seed, place = words
    import atheris  # noqa: PLC0415 - an extra

    with atheris.instrument_imports(include=["penstock"]):
        from prove.attack.fuzzing import Tally, feed, watching  # noqa: PLC0415
        from prove.attack.targets import together  # noqa: PLC0415

        target = together(import_module(f"prove.attack.{name}").TARGETS)
    folder, tally = Path(place), Tally()
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, sample in enumerate(target.samples):
        (corpus / str(number)).write_bytes(sample)

    def one(data: bytes) -> None:
        before = len(tally.findings)
        feed(target, data, tally)
        if len(tally.findings) > before:
            tally.write(folder / _FINDINGS)

    options = [f"-runs={runs}", f"-seed={seed}", "-max_len=20000", "-timeout=60"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/", str(corpus)], one)
    with watching():
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
