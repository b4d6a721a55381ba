"""A web application that publishes orders, and the worker that bills them, in one process."""

import asyncio
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI

import penstock
from penstock.integrations.fastapi import PenstockLifespan, get_client

mq = penstock.connect()
worker = penstock.Worker(mq)
app = FastAPI(lifespan=PenstockLifespan(mq, worker=worker))
billed = asyncio.Event()


@app.post("/orders/{number}")
async def order(number: int, mq: Annotated[penstock.Client, Depends(get_client)]) -> str:
    await mq.publish("orders", {"order": number})
    return f"order {number} accepted"


@worker.handler("orders")
async def bill(message: penstock.Message[Any]) -> None:
    print("billed order", message.payload["order"])
    billed.set()


async def main() -> None:
    """What `uvicorn shop:app` and a customer would do."""
    async with penstock.connect() as setup:
        await setup.create_queue("orders")
    async with app.router.lifespan_context(app) as state:

        async def served(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": dict(state)}, receive, send)

        transport = httpx.ASGITransport(app=served)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as http:
            print((await http.post("/orders/7")).json())
        await billed.wait()


if __name__ == "__main__":
    asyncio.run(main())
