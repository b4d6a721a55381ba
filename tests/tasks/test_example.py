"""The example does what its page says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "tasks" / "shop.py"


def test_the_shop_takes_turns_and_names_what_is_dead():
    ran = subprocess.run(
        [sys.executable, EXAMPLE], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.splitlines() == [
        "acme: mail to 0@acme",
        "acme: mail to 1@acme",
        "zeta: mail to ada@zeta",
        "acme: mail to 2@acme",
        "dead: nobody is no address",
    ]
