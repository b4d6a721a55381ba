"""A process that has imported what every command needs, and forks one child for each command.

The imports of `penstock` take ten times as long as most commands.  A forked child is a process of
its own, with its own words, environment, folder, pipes and exit code.  It calls the same `main` as
the installed program and ends as any interpreter ends.

`tests.acceptance.commandline` starts this file as a program, and sends it requests through a
socket: one byte with the descriptors of a file that has the request, of the child's stdin, stdout
and stderr, and of a pipe for the child's process id and its exit code.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress

DESCRIPTORS = 5


def serve(requests: socket.socket) -> bool:
    """Fork for every request until there are no more.  True in a child that has a command to run,
    False in the process that forked them."""
    while True:
        byte, descriptors, _, _ = socket.recv_fds(requests, 1, DESCRIPTORS)
        if not byte:
            return False
        # The first child waits for the command, so that this process can take the next request.
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            request, *standard, report = descriptors
            command = os.fork()
            if command == 0:
                os.close(report)
                become(request, standard)
                return True
            watch(command, report, descriptors)
        for each in descriptors:
            os.close(each)


def become(request: int, standard: list[int]) -> None:
    """Take over what a started program would have been given."""
    with os.fdopen(request) as file:
        file.seek(0)
        asked = json.load(file)
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv[:] = asked["argv"]
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    os.chdir(asked["folder"])


def watch(command: int, report: int, descriptors: list[int]) -> None:
    """Tell the command's process id and its exit code, and end."""
    for each in descriptors:
        if each != report:
            os.close(each)
    # Who gave up waiting does not read.
    with suppress(BrokenPipeError):
        os.write(report, f"{command}\n".encode())
        _, status = os.waitpid(command, 0)
        os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def main() -> None:
    # What nearly every command imports.  A command's own module is imported by the child.
    for name in (
        "encodings.idna",
        "penstock.cli.output",
        "penstock.client",
        "penstock.sync",
        "rich._emoji_codes",
        "typer._adapters",
        "typer.rich_utils",
    ):
        # Not every version of a package has its private modules.
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    command = importlib.import_module("penstock.cli").main
    # No child looks for garbage among what it has been given.
    gc.collect()
    gc.freeze()
    # The children that wait for commands leave nothing behind.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if serve(socket.socket(fileno=int(sys.argv[1]))):
        command()


if __name__ == "__main__":
    main()
