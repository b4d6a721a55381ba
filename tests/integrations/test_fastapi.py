"""FastAPI and Starlette: the client lives as long as the application, and so does its worker."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import fastapi
import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

import penstock
from penstock.integrations.fastapi import PenstockLifespan, get_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from tests.fixtures.databases import Database

Mq = Annotated[penstock.Client, fastapi.Depends(get_client)]


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The application as a server runs it, lifespan included."""
    async with app.router.lifespan_context(app) as state:
        transport = httpx.ASGITransport(app=with_state(app, state))
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as http:
            yield http


def with_state(app: Any, state: dict[str, Any]) -> Any:
    async def serve(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": dict(state or {})}, receive, send)

    return serve


async def test_a_route_gets_the_client_and_the_worker_handles_what_it_published(
    database: Database,
) -> None:
    handled: asyncio.Queue[Any] = asyncio.Queue()

    def make_worker(mq: penstock.Client) -> penstock.Worker:
        worker = penstock.Worker(mq)

        @worker.handler("orders")
        async def bill(message: penstock.Message[Any]) -> None:
            handled.put_nowait(message.payload)

        return worker

    async with penstock.connect(database.dsn) as mq:
        await mq.create_queue("orders")
    app = fastapi.FastAPI(lifespan=PenstockLifespan(dsn=database.dsn, worker=make_worker))

    @app.post("/orders/{number}")
    async def order(number: int, mq: Mq) -> dict[str, int]:
        return {"message": await mq.publish("orders", {"order": number})}

    async with served(app) as http:
        answer = await http.post("/orders/7")
        assert answer.json()["message"] > 0
        assert await asyncio.wait_for(handled.get(), timeout=30) == {"order": 7}


async def test_starlette_works_too_and_other_lifespans_run_inside(database: Database) -> None:
    story: list[str] = []

    @asynccontextmanager
    async def own(app: Any) -> AsyncIterator[dict[str, str]]:
        story.append("begins")
        yield {"shop": "open"}
        story.append("ends")

    async def health(request: Request) -> JSONResponse:
        checks = await get_client(request).health()
        return JSONResponse([request.state.shop, all(check.ok for check in checks)])

    lifespan = PenstockLifespan(penstock.connect(database.dsn), around=own)
    app = Starlette(routes=[Route("/health", health)], lifespan=lifespan)
    async with served(app) as http:
        assert (await http.get("/health")).json() == ["open", True]
    assert story == ["begins", "ends"]


async def test_an_application_without_the_lifespan_is_told_what_to_do() -> None:
    async def route(request: Request) -> JSONResponse:
        return JSONResponse(str(get_client(request)))

    app = Starlette(routes=[Route("/", route)])
    async with served(app) as http:
        with pytest.raises(penstock.PenstockError, match="PenstockLifespan"):
            await http.get("/")
