"""Arguments and options that several commands share, each described once."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.values import duration

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
MessageNumber = Annotated[int, typer.Argument(metavar="ID", help="The message's id.")]
MessageNumbers = Annotated[list[int], typer.Argument(metavar="ID", help="The ids of the messages.")]
Token = Annotated[
    str, typer.Option("--token", "-t", metavar="TOKEN", help="The token that claimed it.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]
Host = Annotated[str, typer.Option(help="The address to listen on. Default: this machine only.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


def duration_option(*names: str, help: str) -> typer.models.OptionInfo:  # noqa: A002 - typer's word
    option: typer.models.OptionInfo = typer.Option(
        *names, parser=duration, metavar="DURATION", help=help, show_default=False
    )
    return option
