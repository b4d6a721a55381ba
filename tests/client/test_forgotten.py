"""A program that ends without closing its client leaves no server behind, and no noise."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import asyncio, sys
import penstock

async def main():
    global mq
    mq = penstock.connect(data_dir=__import__("pathlib").Path(sys.argv[1]))
    await mq.open()
    await mq.create_queue("billing")
    raise LookupError("the program's own")

asyncio.run(main())
"""


def test_a_program_that_dies_shows_its_own_error_alone_and_leaves_the_server() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-") as root:
        Path(root).chmod(0o755)
        folder = Path(root) / "data"
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr.count("Traceback") == 1
        assert done.stderr.rstrip().endswith("LookupError: the program's own")
        assert not list(folder.rglob("postmaster.pid"))
