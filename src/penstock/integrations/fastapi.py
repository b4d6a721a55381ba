"""Starlette and FastAPI: one client for the application's life, and a worker beside it if wanted.

penstock = PenstockLifespan(worker=worker)
app = FastAPI(lifespan=penstock)

@app.post("/orders")
async def order(mq: Annotated[Client, Depends(get_client)]): ...
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import penstock
from penstock.extras import needs

with needs("fastapi"):
    # Not for the checker only: FastAPI reads a dependency's annotations when it is registered.
    from starlette.requests import HTTPConnection  # noqa: TC002

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp

_STATE = "penstock"


class PenstockLifespan:
    """An ASGI lifespan that opens a client, and runs a worker until the application ends.

    `client` is one of yours, or None for `penstock.connect()` with the given options.  `worker` is
    a Worker, or a function that makes one from the client.  `around` is another lifespan to run
    inside this one.
    """

    def __init__(
        self,
        client: penstock.Client | None = None,
        *,
        worker: penstock.Worker | Callable[[penstock.Client], penstock.Worker] | None = None,
        around: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
        **options: Any,
    ) -> None:
        self._client = client or penstock.connect(**options)
        self._worker = worker
        self._around = around

    @asynccontextmanager
    async def __call__(self, app: ASGIApp) -> AsyncIterator[dict[str, Any]]:
        """What the framework runs: the state it gives is that of every request."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._client)
            state: dict[str, Any] = {_STATE: self._client}
            worker = self._made_worker()
            if worker is not None:
                await stack.enter_async_context(_running(worker))
            if self._around is not None:
                state |= await stack.enter_async_context(self._around(app)) or {}
            yield state

    def _made_worker(self) -> penstock.Worker | None:
        if self._worker is None or isinstance(self._worker, penstock.Worker):
            return self._worker
        return self._worker(self._client)


@asynccontextmanager
async def _running(worker: penstock.Worker) -> AsyncIterator[None]:
    # The server handles the signals, and ends the lifespan when one comes.
    task = asyncio.create_task(worker.run(signals=False), name="penstock-worker")
    try:
        yield
    finally:
        await worker.stop()
        await task


def get_client(connection: HTTPConnection) -> penstock.Client:
    """The application's client: a FastAPI dependency, or call it with a request."""
    client: penstock.Client | None = getattr(connection.state, _STATE, None)
    if client is None:
        raise penstock.PenstockError(
            "the application has no Penstock client: give it lifespan=PenstockLifespan()"
        )
    return client
