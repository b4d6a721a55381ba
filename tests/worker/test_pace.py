"""When a worker looks at its queue and for how much: the rules, without a database."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.consumer_options import Mode
from penstock.worker.invoke import averaged
from penstock.worker.options import Options, error_pause, idle_pause
from penstock.worker.runner import Load, waiting_room, wanted

QUICK, SLOW = 0.0001, 10.0


def load(held: int = 0, running: int = 0, waiting: int = 0, seconds: float | None = QUICK) -> Load:
    return Load(held, running, waiting, seconds)


@given(
    concurrency=st.integers(1, 100),
    prefetch=st.integers(0, 500),
    batch=st.integers(1, 200),
    running=st.integers(0, 100),
    waiting=st.integers(0, 500),
    settling=st.integers(0, 500),
    seconds=st.none() | st.floats(0, 100),
)
def test_never_more_is_held_than_slots_and_waiting_room(
    concurrency: int,
    prefetch: int,
    batch: int,
    running: int,
    waiting: int,
    settling: int,
    seconds: float | None,
):
    options = Options(concurrency=concurrency, prefetch=prefetch, batch_size=batch)
    now = load(running + waiting + settling, running, waiting, seconds)
    count = wanted(options, now)
    assert 0 <= count <= batch
    assert count == 0 or now.held + count <= concurrency + prefetch


def test_a_free_slot_is_filled_at_once():
    assert wanted(Options(concurrency=5), load(held=4, running=4, seconds=SLOW)) == 1
    assert wanted(Options(concurrency=5), load(held=5, running=5, seconds=SLOW)) == 0


def test_a_slot_whose_message_is_gone_is_not_free():
    assert wanted(Options(prefetch=0), load(held=0, running=1)) == 0


def test_slow_handlers_hold_nothing_in_reserve_and_quick_ones_do():
    options = Options(concurrency=10)
    assert waiting_room(options, None) == 0
    assert waiting_room(options, SLOW) == 0
    assert waiting_room(options, QUICK) == options.most_waiting == 200


def test_the_waiting_room_is_filled_in_batches():
    options = Options(concurrency=10, prefetch=20, batch_size=20)
    assert wanted(options, load(held=21, running=10, waiting=11)) == 0
    assert wanted(options, load(held=20, running=10, waiting=10)) == 10


def test_the_average_follows_the_newest_slowly():
    assert averaged(None, 5.0) == 5.0
    assert averaged(1.0, 2.0) == 1.1


def test_pauses_grow_while_the_queue_stays_empty():
    options = Options(mode=Mode.POLL)
    pauses = [idle_pause(options, looks, None, 0, hears=False) for looks in range(1, 6)]
    assert pauses == [1, 2, 4, 5, 5]
    assert idle_pause(Options(), 1000, None, 0, hears=True) == 5.0


def test_in_doubt_whether_it_will_be_woken_a_worker_takes_short_naps():
    options = Options(polling_interval=timedelta(seconds=2))
    pauses = [
        idle_pause(options, looks, None, 0, hears=True, doubtful=True) for looks in (1, 2, 3, 9)
    ]
    assert pauses == [0.05, 0.1, 0.2, 1]


def test_nobody_sleeps_longer_than_a_registration_lasts():
    hour = timedelta(hours=1)
    options = Options(polling_interval=hour, claim_for=hour)
    assert idle_pause(options, 1, None, 0, hears=True) < 1800
    assert idle_pause(options, 1, None, 0, hears=False) == 3600


def test_a_worker_looks_at_least_once_in_the_time_of_a_claim():
    options = Options(claim_for=timedelta(seconds=5))
    assert idle_pause(options, 1000, None, 0, hears=True) == 4.0


def test_what_is_due_ends_a_pause():
    assert 0.3 < idle_pause(Options(), 9, 0.3, 0, hears=False) < 0.31
    assert idle_pause(Options(), 9, -5.0, 0, hears=False) < 0.01
    assert idle_pause(Options(), 1, 3600.0, 0, hears=False) == 1


def test_pauses_after_errors_double_to_half_a_minute():
    options = Options()
    assert [error_pause(options, n, 0) for n in (1, 2, 3, 1000)] == [1, 2, 4, 30]
    assert error_pause(options, 1, 1) == 0.75


def test_a_crowd_does_not_look_in_step():
    assert idle_pause(Options(), 1, None, 1, hears=False) < idle_pause(
        Options(), 1, None, 0, hears=False
    )
