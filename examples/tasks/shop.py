"""Enqueue tasks for two tenants and work them off, on any store."""

from __future__ import annotations

import asyncio
import sys

from penstock.tasks import Dead, Policy, Task, TaskWorker, connect


async def main(dsn: str) -> None:
    async with connect(dsn) as queue:
        worker = TaskWorker(queue, policy=Policy(fair=True))

        @worker.handler("mail")
        async def send(task: Task) -> None:
            to = task.json()["to"]
            if "@" not in to:
                raise Dead(f"{to} is no address")
            sys.stdout.write(f"{task.tenant_id}: mail to {to}\n")

        for number in range(3):
            await queue.enqueue("mail", {"to": f"{number}@acme"}, tenant_id="acme")
        await queue.enqueue("mail", {"to": "nobody"}, tenant_id="zeta")
        await queue.enqueue("mail", {"to": "ada@zeta"}, tenant_id="zeta")
        # A service would say: await worker.run()
        await worker.drain()
        for letter in await queue.store.list_dlq():
            sys.stdout.write(f"dead: {letter.reason}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
