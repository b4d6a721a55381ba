"""The engine's housekeeping, now and then: any worker may do it, and one at a time is enough."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from penstock.client._async.maintenance import maintain
from penstock.errors import PenstockError

EVERY_SECONDS = 30.0


async def keep_up(database: Any) -> None:
    """Never ends by itself.  Consuming doesn't depend on it, so a failure waits for next time."""
    while True:
        # Many workers started together should not come together.
        await asyncio.sleep(EVERY_SECONDS * (0.5 + random.random()))  # noqa: S311 - no secret
        try:
            await maintain(database.run)
        except PenstockError:
            continue
