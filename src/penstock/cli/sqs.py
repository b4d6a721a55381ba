"""penstock sqs: the SQS door as a server."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from penstock.cli.arguments import Host, Port, duration_option
from penstock.cli.session import Session, command
from penstock.errors import InvalidSetting


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


def register(app: typer.Typer) -> None:
    command(app, example="penstock sqs --port 9324 --no-auth")(sqs)
