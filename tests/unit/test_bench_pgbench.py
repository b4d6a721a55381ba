"""Reading what pgbench says."""

from __future__ import annotations

import pytest

from bench.peers.scripts import SCRIPTS, Scripts
from bench.pgbench import Pace, PgbenchError, pace

SAID = """
pgbench (15.18)
progress: 1.0 s, 10.0 tps, lat 99.000 ms stddev 1.0, 0 failed
progress: 2.0 s, 100.0 tps, lat 4.000 ms stddev 1.0, 0 failed
progress: 3.0 s, 300.0 tps, lat 2.000 ms stddev 1.0, 0 failed
progress: 4.0 s, 200.0 tps, lat 3.000 ms stddev 1.0, 0 failed
"""


def test_the_middle_second_after_the_warm_up_counts() -> None:
    assert pace(SAID, warm_up=1) == Pace(200.0, 3.0)


def test_a_run_without_a_second_that_counts_is_refused() -> None:
    with pytest.raises(PgbenchError, match="no second"):
        pace(SAID, warm_up=4)


@pytest.mark.parametrize("scripts", SCRIPTS.values(), ids=SCRIPTS)
def test_scripts_claim_as_many_as_they_are_told(scripts: Scripts) -> None:
    assert "'{}'" in scripts.claim(10)
    assert "10" in scripts.claim(10)
    assert "{" not in scripts.claim(1)
