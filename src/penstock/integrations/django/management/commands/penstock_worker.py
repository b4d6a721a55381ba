"""manage.py penstock_worker: run a worker with Django set up around it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string

from penstock import Worker
from penstock.integrations.django.configuration import configuration
from penstock.observe import logs

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Handle messages until a signal comes."""

    help = "Run the worker of PENSTOCK['WORKER'], or the one named here, until it is told to stop."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The worker, if it is another than the settings say."""
        parser.add_argument("worker", nargs="?", help='such as "shop.messages:worker"')

    def handle(self, *_args: Any, worker: str | None = None, **_options: Any) -> None:
        """Find the worker and run it; SIGTERM and SIGINT stop it gracefully."""
        found = _find(worker or configuration().worker)
        with logs.start():
            asyncio.run(found.run())


def _find(name: str | None) -> Worker:
    if not name:
        raise CommandError(
            'no worker is named: set PENSTOCK = {"WORKER": "shop.messages:worker"}, '
            "or give it as an argument"
        )
    try:
        found = import_string(name.replace(":", "."))
    except ImportError as problem:
        raise CommandError(f"the worker {name} can't be imported: {problem}") from problem
    if not isinstance(found, Worker):
        raise CommandError(f"{name} is a {type(found).__name__} and no penstock.Worker")
    return found
