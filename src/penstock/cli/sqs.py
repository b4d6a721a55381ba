"""penstock sqs and sqs-key: the SQS server, and the keys that requests to it are signed with."""

from __future__ import annotations

import base64
import os
import secrets
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments import Host, Port, Yes, duration_option
from penstock.cli.session import Session, command
from penstock.errors import InvalidSetting, UnknownName

if TYPE_CHECKING:
    from penstock.sqs.auth.key_storage import Seal

key_app = typer.Typer(
    name="sqs-key",
    help="Who may sign requests to the SQS server.",
    epilog="Example: penstock sqs-key create --role publisher --queue 'orders-*'",
    no_args_is_help=True,
)
_ID_BYTES = 10
_SECRET_BYTES = 30


def sqs(
    session: Session,
    *,
    port: Port = 9324,
    host: Host = "127.0.0.1",
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Don't check signatures; on loopback only.")
    ] = False,
    keys: Annotated[
        Path | None,
        typer.Option(
            "--keys", metavar="FILE", help="Access keys in a TOML file, besides the table's."
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="What queue URLs begin with. Default: the Host header."),
    ] = None,
    url_style: Annotated[
        str,
        typer.Option(metavar="path|region-path|region-host", help="The form of queue URLs."),
    ] = "path",
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="Believe X-Forwarded-Host, -Proto and -For.")
    ] = False,
    account: Annotated[
        str, typer.Option(help="With --no-auth: the account of keys that name none.")
    ] = "000000000000",
    region: Annotated[
        str, typer.Option(help="With --no-auth: the region of unsigned requests.")
    ] = "us-east-1",
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A certificate chain in PEM: serve HTTPS.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate's private key in PEM.")
    ] = None,
    processes: Annotated[
        int, typer.Option(help="Processes that share the port; 0: one for each core.")
    ] = 1,
    grace: Annotated[
        timedelta | None,
        duration_option("--grace", help="How long requests may take to finish on a stop."),
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="One line a request on stderr, without bodies.")
    ] = False,
) -> None:
    """Serve Amazon SQS's protocols: any SQS client works with the queues of this database."""
    server = _server()
    from penstock.sqs.protocol.queue_names import UrlStyle
    from penstock.sqs.server_options import Options

    try:
        style = UrlStyle(url_style)
    except ValueError:
        raise InvalidSetting("--url-style must be path, region-path or region-host") from None
    options = Options(
        host=host,
        port=port,
        auth=not no_auth,
        key_file=keys,
        public_url=public_url,
        url_style=style,
        behind_proxy=behind_proxy,
        account=account,
        region=region,
        certificate=tls_cert,
        private_key=tls_key,
        processes=processes or os.cpu_count() or 1,
        access_log=access_log,
        grace=timedelta(seconds=25) if grace is None else grace,
    )
    # Opens the embedded server if that is meant, and says what is wrong with the database.
    _ = session.connection
    settings = server.settings_for(session.settings, session.dsn)
    server.log_to_stderr(access_log=access_log)
    server.serve(server.Plan(settings, options), lambda url: _announce(session, url, no_auth))


def _server() -> ModuleType:
    try:
        from penstock.sqs.http import http_server
    except ModuleNotFoundError as problem:
        raise InvalidSetting(
            f"the SQS server needs {problem.name}: pip install 'penstock-mq[sqs]'"
        ) from None
    return http_server


def _announce(session: Session, url: str, no_auth: bool) -> None:
    key = (
        "any: AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any"
        if no_auth
        else "your access key (penstock sqs-key create)"
    )
    facts = {"url": url, "auth": not no_auth, "pid": os.getpid()}
    session.output.line(facts, f"serving SQS at {url}")
    for advice in (
        f'boto3:    boto3.client("sqs", endpoint_url="{url}", region_name="us-east-1")',
        f"aws cli:  aws --endpoint-url {url} sqs list-queues",
        f"any SDK:  AWS_ENDPOINT_URL_SQS={url}",
        f"key:      {key}",
    ):
        session.output.note(f"  {advice}")
    session.output.note("Ctrl-C ends it")


@command(key_app, example="penstock sqs-key create --role publisher --queue 'orders-*'")
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


@command(key_app, "list", example="penstock sqs-key list")
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


@command(key_app, example="penstock sqs-key delete AKIAEXAMPLE --yes")
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


def register(app: typer.Typer) -> None:
    command(app, example="penstock sqs --port 9324 --no-auth")(sqs)
    app.add_typer(key_app)
