"""Calls that arrive together share a batch; the batches are answered by the test."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock.sqs.backend.call_batcher import (
    MOST_BYTES,
    BatchedCall,
    CallBatcher,
    Invocation,
    fitting,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Recorder:
    """Answers batches when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.go = asyncio.Event()

    def begin(self, calls: Sequence[BatchedCall], done: Callable[[], None]) -> None:
        self.batches.append([call.invocation.request for call in calls])
        self._task = asyncio.ensure_future(self._finish(calls, done))

    async def _finish(self, calls: Sequence[BatchedCall], done: Callable[[], None]) -> None:
        await self.go.wait()
        for call in calls:
            call.answer.set_result(call.action.encode() + b":" + call.invocation.request)
        done()


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _batcher(recorder: Recorder, **given: Any) -> CallBatcher:
    return CallBatcher(recorder.begin, **({"most": 64, "width": 3, "mixed": True} | given))


async def test_requests_that_arrive_meanwhile_travel_together() -> None:
    recorder = Recorder()
    batcher = _batcher(recorder)
    first = batcher.submit("a", "q", Invocation(b"1", b""))
    await _turns(2)
    rest = [batcher.submit("ab"[n % 2], "q", Invocation(b"%d" % n, b"")) for n in range(2, 6)]
    other = batcher.submit("a", "r", Invocation(b"9", b""))
    await _turns(2)
    # The one for an idle lane does not wait for the others.
    assert recorder.batches == [[b"1"], [b"9"]]
    recorder.go.set()
    assert await asyncio.gather(first, *rest, other) == [
        b"a:1",
        b"a:2",
        b"b:3",
        b"a:4",
        b"b:5",
        b"a:9",
    ]
    assert recorder.batches == [[b"1"], [b"9"], [b"2", b"3", b"4", b"5"]]
    await batcher.settle()


@pytest.mark.parametrize(
    ("mixed", "batches"), [(True, [[b"1", b"3", b"2"]]), (False, [[b"1", b"3"], [b"2"]])]
)
async def test_what_arrives_in_one_turn_of_the_loop_travels_together(
    mixed: bool, batches: list[list[bytes]]
) -> None:
    recorder = Recorder()
    recorder.go.set()
    batcher = _batcher(recorder, mixed=mixed)
    asks = [
        batcher.submit("a", lane, Invocation(b"%d" % n, b"")) for n, lane in enumerate("qrq", 1)
    ]
    await asyncio.gather(*asks)
    assert recorder.batches == batches


async def test_only_so_many_batches_run_at_once() -> None:
    recorder = Recorder()
    batcher = _batcher(recorder, width=2, mixed=False)
    asks = [batcher.submit("a", lane, Invocation(lane.encode(), b"")) for lane in "qrst"]
    await _turns(3)
    assert recorder.batches == [[b"q"], [b"r"]]
    recorder.go.set()
    await asyncio.gather(*asks)
    assert recorder.batches == [[b"q"], [b"r"], [b"s"], [b"t"]]


async def test_what_does_not_fit_into_a_batch_takes_the_next() -> None:
    recorder = Recorder()
    recorder.go.set()
    batcher = _batcher(recorder, most=2)
    asks = [batcher.submit("a", lane, Invocation(b"%d" % n, b"")) for n, lane in enumerate("qqqrr")]
    await asyncio.gather(*asks)
    assert sorted(recorder.batches) == [[b"0", b"1"], [b"2"], [b"3", b"4"]] or (
        sorted(recorder.batches) == [[b"0", b"1"], [b"2", b"3"], [b"4"]]
    )


async def test_a_batch_has_a_limit_in_number_and_in_bytes() -> None:
    def calls(size: int, count: int) -> list[BatchedCall]:
        loop = asyncio.get_running_loop()
        return [BatchedCall("a", "q", Invocation(b"x" * size, b""), loop.create_future())] * count

    assert fitting(calls(1, 100), 64) == (64, 64)
    assert fitting(calls(1, 5), 64) == (5, 5)
    assert fitting(calls(MOST_BYTES, 3), 64) == (1, MOST_BYTES)
    assert fitting(calls(MOST_BYTES, 3), 64, 1) == (0, 1)
