"""Commands whose modules are imported when they are called, and not already to be listed.

The help of the root and the completion of its nouns need a name and a sentence only; everything
else, such as a walk over all commands, gets the real ones.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class Entry:
    """A noun or a verb: the module of its name has a Typer `app`, or a `register(app)`."""

    name: str
    help: str

    @property
    def listed(self) -> TyperCommand:
        """Enough of a command to be listed."""
        return TyperCommand(self.name, help=self.help)

    def load(self) -> Any:
        """The command itself."""
        module = importlib.import_module(f"penstock.cli.{self.name.replace('-', '_')}")
        holder = typer.Typer(add_completion=False, rich_markup_mode="rich")
        # With a callback of its own it is a group, and never the one command that it has.
        holder.callback()(lambda: None)
        if hasattr(module, "app"):
            holder.add_typer(module.app)
        else:
            module.register(holder)
        return typer.main.get_group(holder).commands[self.name]


class Commands(MutableMapping[str, Any]):
    """The commands by name, each made when it is first asked for."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self.entries[name].load()
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self.entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries


class LazyGroup(TyperGroup):
    """A group that knows its commands by name."""

    entries: ClassVar[tuple[Entry, ...]] = ()

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.commands = Commands(self.entries)
        self._listing = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in self.commands:
            return None
        if self._listing:
            return next(each for each in self.entries if each.name == cmd_name).listed
        return self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._names_only():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._names_only():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _names_only(self) -> Iterator[None]:
        self._listing = True
        try:
            yield
        finally:
            self._listing = False
