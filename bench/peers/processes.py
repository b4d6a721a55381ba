"""Workers in processes of their own, that speak lines with us.

A process says `ready` when it has loaded its library, starts its worker when it reads a line,
says the numbers of the jobs that it has done, and winds down at the end of its input.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Sequence

    from bench.peers.workers import Jobs

#: Seconds for a process to wind down.
PATIENCE = 15.0


class WorkerEnded(Exception):
    """A worker's process ended before it was told to: the others did its share."""


async def run_workers(
    words: Sequence[str],
    count: int,
    jobs: Jobs,
    stop: asyncio.Event,
    begun: Callable[[], None] = lambda: None,
) -> None:
    """Run so many of these processes until `stop` is set; all of them begin at the same moment."""
    processes = await asyncio.gather(*(_started(words) for _ in range(count)))
    try:
        await asyncio.gather(*(_ready(process) for process in processes))
        begun()
        for process in processes:
            _input(process).write(b"go\n")
        telling = [asyncio.create_task(_told(_output(each), jobs.handled)) for each in processes]
        await _until(stop, telling)
        early = not stop.is_set()
        await asyncio.gather(*(_released(process) for process in processes))
        await asyncio.gather(*telling)
        if early:
            raise WorkerEnded("a worker process ended before it was told to")
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _started(words: Sequence[str]) -> Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, limit=2**24)


async def _ready(process: Process) -> None:
    if await _output(process).readline() != b"ready\n":
        raise WorkerEnded("a worker process ended before it was ready")


async def _told(lines: asyncio.StreamReader, handled: Callable[[int], None]) -> None:
    async for line in lines:
        for number in line.split():
            handled(int(number))


async def _until(stop: asyncio.Event, telling: Sequence[asyncio.Task[None]]) -> None:
    """Until `stop` is set, or a process has closed its output, which ends what it tells."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([stopped, *telling], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


async def _released(process: Process) -> None:
    _input(process).close()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE)
    except TimeoutError:
        # All that was asked of it is done by now.
        process.kill()
        await process.wait()


def _input(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None
    return process.stdin


def _output(process: Process) -> asyncio.StreamReader:
    assert process.stdout is not None
    return process.stdout
