"""penstock metrics: what the queues hold, for Prometheus."""

from __future__ import annotations

import signal
from typing import Annotated, Any

import typer

from penstock.cli.session import ReconnectingCaller, Session, command
from penstock.extras import needs


def metrics(
    session: Session,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = 9187,
    once: Annotated[bool, typer.Option("--once", help="Print them and end.")] = False,
) -> None:
    """Serve the state of every queue to Prometheus at /metrics, until Ctrl-C.

    One for each database is enough. It needs penstock_monitor's rights and one connection.
    """
    with needs("metrics"):
        from prometheus_client import CollectorRegistry, generate_latest

    from penstock.observe.exporter import DatabaseCollector

    registry = CollectorRegistry()
    registry.register(DatabaseCollector(ReconnectingCaller(session)))
    if once:
        typer.echo(generate_latest(registry).decode(), nl=False)
        return
    _serve(session, registry, host, port)


def _serve(session: Session, registry: Any, host: str, port: int) -> None:
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as problem:
        raise typer.BadParameter(
            f"{host}:{port}: {problem.strerror}", param_hint="--port"
        ) from None
    session.output.note(f"http://{host}:{server.server_port}/metrics; Ctrl-C ends it")
    try:
        signal.pause()
    except KeyboardInterrupt:
        session.output.note("ended")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def register(app: typer.Typer) -> None:
    command(app, example="penstock metrics --port 9187 --dsn postgresql://localhost/shop")(metrics)
