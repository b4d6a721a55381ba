"""Runs the Python blocks of one page: `python -m tests.docs.python_examples docs/guides/x.md`.

The blocks are one program, in their order, on the page's own lines, so that a traceback names the
line at fault.  `await` may stand outside of a function, as in a notebook.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from pathlib import Path

from tests.docs.pages import Page


def program(page: Page) -> str:
    lines = [""] * len(page.text.splitlines())
    for block in page.blocks("python"):
        if block.not_run is None:
            start = block.first_line - 1
            lines[start : start + len(block.lines)] = block.lines
    return "\n".join(lines) + "\n"


async def run(page: Page) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(program(page), str(page.path), "exec", flags=flags, dont_inherit=True)
    # Payload types are looked up in their module, so the program must have one.
    namespace = sys.modules["__main__"].__dict__
    found = eval(code, namespace)
    if inspect.iscoroutine(found):
        await found


if __name__ == "__main__":
    asyncio.run(run(Page(Path(sys.argv[1]).resolve())))
