"""The server: one process, or several that share a socket."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import multiprocessing.connection
import shutil
import signal
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import uvicorn

from penstock.errors import InvalidSetting, PenstockError
from penstock.sqs.http.application import Application
from penstock.sqs.http.http_connection import connections

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from penstock.settings import Settings
    from penstock.sqs.server_options import Options

_BACKLOG = 4096
_JOIN_SECONDS = 5.0
_PATIENCE = timedelta(seconds=5)
_RESTART_SECONDS = 1.0
_NAME = "penstock sqs"
_log = logging.getLogger("penstock.sqs")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a process needs to know; pickled for the other processes."""

    settings: Settings
    options: Options
    folder: Path | None = None


class Lifespan:
    """Opens and closes the application when uvicorn says so, in ASGI's lifespan messages.

    Requests don't come this way: see `http_connection`.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.problem: Exception | None = None
        """Why the application could not be opened."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        assert scope["type"] == "lifespan"
        await receive()
        try:
            await self._application.open()
        except Exception as problem:  # noqa: BLE001 - the server has to hear why
            self.problem = problem
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._application.close()
        await send({"type": "lifespan.shutdown.complete"})


class Server(uvicorn.Server):
    """One process's server.

    It stops in the right order: open polls are answered first, or each would hold its socket.
    """

    def __init__(self, plan: Plan, ready: Callable[[], None] = lambda: None) -> None:
        self._ready = ready
        self.application = Application(plan.settings, plan.options, plan.folder)
        self.lifetime = Lifespan(self.application)
        super().__init__(_configuration(self.lifetime, self.application))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.application.polls.stop()
        await super().shutdown(sockets)


def serve(plan: Plan, announce: Callable[[str], None] = lambda _url: None) -> None:
    """Serve until SIGTERM or SIGINT; `announce` is told the address."""
    listening = bind(plan.options)
    try:
        url = address(plan.options, listening)
        if plan.options.processes == 1:
            run(plan, listening, lambda: announce(url))
        else:
            asyncio.run(_try_to_open(plan))
            announce(url)
            _supervise(plan, listening)
    finally:
        listening.close()


async def _try_to_open(plan: Plan) -> None:
    """Open the application once: an error is reported here, and not by every process."""
    application = Application(plan.settings, plan.options)
    await application.open()
    await application.close()


def bind(options: Options) -> socket.socket:
    """The listening socket, made before anything else: a port in use is said at once."""
    try:
        family = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((options.host, options.port), family=family, backlog=_BACKLOG)
    except OSError as problem:
        raise InvalidSetting(
            f"can't listen on {options.host}:{options.port}: {problem.strerror or problem}"
        ) from None
    made.set_inheritable(True)
    return made


def address(options: Options, listening: socket.socket) -> str:
    """Where clients find the server."""
    if options.public_url is not None:
        return options.public_url
    scheme = "http" if options.certificate is None else "https"
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{scheme}://{host}:{listening.getsockname()[1]}"


def run(plan: Plan, listening: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serve in this process; `ready` is called once it answers."""
    server = Server(plan, ready)
    try:
        server.run([listening])
    except SystemExit:
        if server.lifetime.problem is not None:
            raise server.lifetime.problem from None
        raise
    except KeyboardInterrupt:
        # uvicorn raises the signal again that it has obeyed.
        pass


def _configuration(lifespan: Lifespan, application: Application) -> uvicorn.Config:
    options = application.options
    return uvicorn.Config(
        lifespan,
        http=connections(application),
        loop="uvloop",
        lifespan="on",
        ws="none",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=round(options.grace.total_seconds()),
        backlog=_BACKLOG,
        **_tls(options),
    )


def _tls(options: Options) -> dict[str, Any]:
    if options.certificate is None:
        return {}
    return {
        "ssl_certfile": str(options.certificate),
        "ssl_keyfile": str(options.private_key),
        "ssl_version": ssl.PROTOCOL_TLS_SERVER,
    }


def _supervise(plan: Plan, listening: socket.socket) -> None:
    """Keep so many processes running until told to stop."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-sqs-"))
    spawn = multiprocessing.get_context("spawn")
    shared = Plan(plan.settings, plan.options, folder)
    children: list[BaseProcess] = []
    stopping = Event()

    def begin() -> BaseProcess:
        child = spawn.Process(target=_run_as_child, args=(shared, listening), name=_NAME)
        child.start()
        return child

    def stop(_signal: int, _frame: Any) -> None:
        stopping.set()

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        children += [begin() for _ in range(plan.options.processes)]
        while not stopping.is_set():
            multiprocessing.connection.wait([child.sentinel for child in children], timeout=0.5)
            if not stopping.is_set() and not all(child.is_alive() for child in children):
                _require_one(children)
                # One that ends as soon as it begins must not keep a core busy.
                stopping.wait(_RESTART_SECONDS)
                children = [child if child.is_alive() else begin() for child in children]
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.join(plan.options.grace.total_seconds() + _JOIN_SECONDS)
        for child in children:
            if child.is_alive():
                child.kill()
                child.join()
        for each, handler in before.items():
            signal.signal(each, handler)
        shutil.rmtree(folder, ignore_errors=True)


def _require_one(children: list[BaseProcess]) -> None:
    if not any(child.is_alive() for child in children):
        raise PenstockError("every process of the server ended: its log says why")


def _run_as_child(plan: Plan, listening: socket.socket) -> None:
    log_to_stderr(access_log=plan.options.access_log)
    try:
        run(plan, listening)
    except PenstockError as problem:
        _log.error("a process could not serve: %s", str(problem).partition("\n")[0])
        raise SystemExit(1) from None


def settings_for(settings: Settings, dsn: str) -> Settings:
    """The client's settings for a server: the address that was found, and little patience.

    SDKs repeat a request that was answered with 503; one that waits for a minute they give up.
    """
    return replace(
        settings, dsn=dsn, retry_for=min(settings.retry_for, _PATIENCE), application_name=_NAME
    )


def log_to_stderr(*, access_log: bool) -> None:
    """Say on stderr what goes wrong, and, if wanted, what goes on."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("penstock").addHandler(handler)
    logging.getLogger("penstock.sqs.access").setLevel(
        logging.INFO if access_log else logging.WARNING
    )
    logging.getLogger("uvicorn").addHandler(handler)
    # The code that starts the server tells why it did not start.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: not record.getMessage().startswith("Application startup failed")
    )
