"""A consumer's decisions: modes, naps, and the claims of what waits in memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from penstock.client import consumer_options
from penstock.client.claimed_messages import ClaimedMessages
from penstock.client.consumer_options import Mode, Options, Stragglers, idle_pause
from penstock.errors import InvalidSetting
from penstock.postgres.session import Reach

SECOND = timedelta(seconds=1)


def naps(options: Options, reach: Reach, count: int) -> list[float]:
    return [idle_pause(options, reach, looks, None) for looks in range(count)]


def test_polling_interval_doubles_up_to_the_maximum() -> None:
    options = Options(Mode.POLL, polling_interval=SECOND, max_polling_interval=6 * SECOND)
    assert naps(options, Reach.NOT_YET, 5) == [1, 2, 4, 6, 6]


def test_who_will_be_woken_looks_seldom() -> None:
    assert naps(Options(), Reach.HEARING, 5) == [1, 2, 4, 5, 5]
    assert naps(Options(Mode.LISTEN), Reach.HEARING, 3) == [60, 60, 60]


@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.LISTEN])
def test_in_doubt_the_first_looks_come_quickly_and_all_of_them_soon(mode: Mode) -> None:
    options = Options(mode, polling_interval=60 * SECOND)
    found = [idle_pause(options, Reach.HEARING, looks, None, doubtful=True) for looks in range(40)]
    assert found[0] < 0.1
    assert found == sorted(found)
    assert found[-1] == 1


def test_who_polls_has_no_doubts() -> None:
    assert idle_pause(Options(Mode.POLL), Reach.DEAF, 0, None, doubtful=True) == 1


def test_doubt_lasts_until_all_have_ended_who_wrote_before_the_mark() -> None:
    stragglers = Stragglers()
    assert stragglers.left(oldest_writer=99), "who is not registered knows nothing"
    stragglers.mark = 8
    assert stragglers.left(oldest_writer=7)
    assert not stragglers.left(oldest_writer=9)
    stragglers.forget()
    assert stragglers.left(oldest_writer=9)


@pytest.mark.parametrize("reach", [Reach.NOT_YET, Reach.DEAF])
def test_hybrid_keeps_to_the_polling_interval_while_nobody_would_wake_it(reach: Reach) -> None:
    assert max(naps(Options(polling_interval=2 * SECOND), reach, 40)) == 2


def test_maximum_below_the_polling_interval_does_not_shorten_it() -> None:
    options = Options(Mode.POLL, polling_interval=9 * SECOND, max_polling_interval=SECOND)
    assert naps(options, Reach.NOT_YET, 3) == [9, 9, 9]


@pytest.mark.parametrize("mode", Mode)
def test_nobody_sleeps_past_the_next_due_message(mode: Mode) -> None:
    assert idle_pause(Options(mode), Reach.HEARING, 40, due_in=0.25) == 0.25


@pytest.mark.parametrize("mode", Mode)
def test_message_that_is_there_but_out_of_reach_is_polled_for(mode: Mode) -> None:
    options = Options(mode, polling_interval=2 * SECOND)
    assert idle_pause(options, Reach.HEARING, 40, due_in=-3) == 2
    assert idle_pause(options, Reach.HEARING, 0, due_in=-3) < 0.1, "it may have come a moment after"


@pytest.mark.parametrize("polling_interval", [SECOND, timedelta(days=1)])
@pytest.mark.parametrize("mode", [Mode.HYBRID, Mode.LISTEN])
def test_registration_outlasts_the_longest_nap_even_when_half_of_it_is_over(
    mode: Mode, polling_interval: timedelta
) -> None:
    options = Options(mode, polling_interval=polling_interval)
    longest = max(naps(options, Reach.HEARING, 40))
    span = consumer_options.registration(consumer_options.longest_nap(options)).total_seconds()
    assert longest < span / 2
    assert span <= 3600


def test_behind_a_pooler_hybrid_polls_and_listen_is_refused() -> None:
    assert consumer_options.possible_mode(Mode.HYBRID, pooler=True) is Mode.POLL
    assert consumer_options.possible_mode(Mode.POLL, pooler=True) is Mode.POLL
    with pytest.raises(InvalidSetting, match="'hybrid' or 'poll'"):
        consumer_options.possible_mode(Mode.LISTEN, pooler=True)


@pytest.mark.parametrize("mode", Mode)
def test_without_a_pooler_every_mode_stays(mode: Mode) -> None:
    assert consumer_options.possible_mode(mode, pooler=False) is mode


def test_unknown_mode_names_those_there_are() -> None:
    with pytest.raises(InvalidSetting, match="hybrid, listen, poll"):
        consumer_options.mode_named("push")


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"batch_size": 10_001},
        {"prefetch": -1},
        {"polling_interval": timedelta(0)},
        {"max_polling_interval": -SECOND},
        {"claim_for": timedelta(0)},
        {"give_up_after": 0},
    ],
    ids=str,
)
def test_option_out_of_range_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(wrong))):
        Options(**wrong)


@dataclass(frozen=True)
class Claimed:
    id: int


def holding(*ids: int, claimed_at: float = 0) -> ClaimedMessages[Claimed]:
    found: ClaimedMessages[Claimed] = ClaimedMessages(claim_for=30)
    found.add(map(Claimed, ids), claimed_at)
    return found


def test_messages_are_taken_in_the_order_of_their_claim() -> None:
    found = holding(3, 1, 2)
    assert [found.take(now=1) for _ in range(4)] == [Claimed(3), Claimed(1), Claimed(2), None]


def test_message_whose_claim_has_run_out_is_not_handed_out() -> None:
    found = holding(1, 2)
    found.add([Claimed(3)], claimed_at=20)
    assert found.take(now=30) == Claimed(3)
    assert found.lost() == [Claimed(1), Claimed(2)]
    assert found.lost() == []


def test_claims_are_extended_from_half_of_their_time() -> None:
    found = holding(1, 2)
    found.add([Claimed(3)], claimed_at=5)
    assert found.review_at() == 15
    assert found.to_extend(now=14) == []
    assert found.to_extend(now=15) == [Claimed(1), Claimed(2)]


def test_extended_claim_holds_longer_and_a_refused_one_is_lost() -> None:
    found = holding(1, 2)
    found.extended(asked={1, 2}, granted={2})
    assert found.lost() == [Claimed(1)]
    assert found.take(now=59) == Claimed(2)


def test_message_claimed_while_others_were_extended_stays() -> None:
    found = holding(1)
    found.add([Claimed(9)], claimed_at=20)
    found.extended(asked={1}, granted=set())
    assert found.take(now=21) == Claimed(9)


def test_caller_who_takes_nothing_for_a_whole_claim_is_stuck() -> None:
    found = holding(1, 2, 3)
    assert not found.stuck(now=29)
    assert found.stuck(now=30)
    found.extended(asked={1, 2, 3}, granted={1, 2, 3})
    found.take(now=31)
    assert not found.stuck(now=60)
    assert found.stuck(now=61)
    assert found.surrender() == [Claimed(2), Claimed(3)]
    assert not found.stuck(now=99)
    assert found.review_at() is None
