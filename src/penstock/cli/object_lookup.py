"""The object that `module:name` stands for."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import typer

from penstock import Worker


def find_worker(target: str) -> Worker:
    """Import the module, from the current folder too, and get the worker in it.

    The name may also be a function without arguments that makes the worker.
    """
    found = find_object(target)
    if not isinstance(found, Worker) and callable(found) and not inspect.isclass(found):
        found = found()
    if not isinstance(found, Worker):
        raise _usage(f"{target} is a {type(found).__name__}, not a penstock.Worker")
    return found


def find_object(target: str) -> Any:
    """What stands under that name in that module."""
    module_name, colon, name = target.partition(":")
    if not (module_name and colon and name):
        raise _usage(f"{target!r} does not name a worker: write MODULE:NAME, such as shop:worker")
    return _attribute(_imported(module_name), name, target)


def _imported(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        # One that the module itself misses is its own fault, and shown as such.
        if problem.name is None or not (name + ".").startswith(problem.name + "."):
            raise
        raise _usage(f"there is no module {problem.name!r} here or on the Python path") from None


def _attribute(module: Any, name: str, target: str) -> Any:
    try:
        for step in name.split("."):
            module = getattr(module, step)
    except AttributeError:
        raise _usage(f"{target}: the module has no {name!r}") from None
    return module


def _usage(problem: str) -> typer.BadParameter:
    return typer.BadParameter(problem, param_hint="WORKER")
