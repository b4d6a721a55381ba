"""penstock sqs-key: who may sign requests to the SQS server."""

from __future__ import annotations

import base64
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import Yes
from penstock.cli.session import Session, command
from penstock.errors import InvalidSetting, UnknownName

if TYPE_CHECKING:
    from penstock.sqs.auth.key_storage import Seal

app = typer.Typer(
    name="sqs-key",
    help="Who may sign requests to the SQS server.",
    epilog="Example: penstock sqs-key create --role publisher --queue 'orders-*'",
    no_args_is_help=True,
)
_ID_BYTES = 10
_SECRET_BYTES = 30


@command(app, example="penstock sqs-key create --role publisher --queue 'orders-*'")
def create(
    session: Session,
    *,
    account: Annotated[
        str, typer.Option(help="The account whose queues the key is for.")
    ] = "000000000000",
    role: Annotated[
        str, typer.Option(metavar="admin|publisher|consumer|monitor", help="What it may do.")
    ] = "admin",
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", metavar="PATTERN", help="Only these queues; may be repeated."),
    ] = None,
    name: Annotated[str, typer.Option(help="The user's name in ARNs. Default: the id.")] = "",
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append it to this file instead of the table."),
    ] = None,
) -> None:
    """Make an access key; its secret is shown once."""
    from penstock.sqs.auth import key_storage
    from penstock.sqs.auth.access_keys import AccessKey, Role

    key = AccessKey(
        access_key="AKIA" + base64.b32encode(secrets.token_bytes(_ID_BYTES)).decode(),
        secret=secrets.token_urlsafe(_SECRET_BYTES),
        account=account,
        role=Role.named(role),
        queues=tuple(queue or ()),
        name=name,
    )
    seal = _seal()
    if file is not None:
        _append(file, key_storage.file_entry(key, seal))
    elif seal is None:
        raise InvalidSetting(
            "keys in the database are sealed, and there is no key to seal them with: set "
            "PENSTOCK_SQS_MASTER_KEY (openssl rand -base64 32) here and for the server, or use "
            "--file"
        )
    else:
        session.run(key_storage.put_row(key, seal))
    facts = {"access_key": key.access_key, "secret": key.secret}
    session.output.record(facts | {"account": key.account, "role": key.role.value})


@command(app, "list", example="penstock sqs-key list")
def list_(session: Session) -> None:
    """Show the keys of the table, without their secrets."""
    from penstock.sqs.auth import key_storage

    keys = [
        {"access_key": key, "account": account, "role": role, "queues": queues, "name": name}
        for key, _sealed, account, role, queues, name in session.run(key_storage.list_rows())
    ]
    session.output.table(
        keys, "access_key", "account", "role", "queues", "name", empty="there are no keys yet"
    )


@command(app, example="penstock sqs-key delete AKIAEXAMPLE --yes")
def delete(
    session: Session,
    access_key: Annotated[str, typer.Argument(metavar="KEY", help="The access key's id.")],
    yes: Yes = False,
) -> None:
    """Forget a key of the table; servers refuse it within seconds."""
    from penstock.sqs.auth import key_storage

    session.confirm(f"Forget the access key {access_key}?", yes=yes)
    if not session.run(key_storage.delete_row(access_key)):
        raise UnknownName(f"there is no access key {access_key}")
    session.output.done({"access_key": access_key, "deleted": True}, f"{access_key} is forgotten")


def _seal() -> Seal | None:
    try:
        from penstock.sqs.auth.key_storage import Seal
    except ModuleNotFoundError as problem:
        raise InvalidSetting(
            f"access keys need {problem.name}: pip install 'penstock-mq[sqs]'"
        ) from None
    return Seal.load()


def _append(path: Path, text: str) -> None:
    # Made for its owner alone: it may hold a secret.
    path.touch(mode=0o600, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if path.stat().st_size else "") + text)
