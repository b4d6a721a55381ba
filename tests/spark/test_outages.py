"""A Spark stream and a pipeline while the server is killed and standbys are promoted, by count.

The same in SQL, in seconds: tests/concurrency/test_lost_offsets.py.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prove.parts import spark

if TYPE_CHECKING:
    from collections.abc import Iterator

# For a short look: PENSTOCK_TEST_KILLS=2 pytest -m prove tests/spark/test_outages.py
KILLS = int(os.environ.get("PENSTOCK_TEST_KILLS", "30"))
PROMOTIONS = int(os.environ.get("PENSTOCK_TEST_KILLS", "10"))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the account of the servers can reach."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_servers_killed_again_and_again(place: Path) -> None:
    verdict = spark.kill_servers(place / "kills", KILLS, random.Random(7))
    print(f"\n{KILLS} servers killed: {verdict}")
    assert (verdict["lost by the archive"], verdict["lost by the stream"]) == (0, 0)
    assert (verdict["archived twice"], verdict["streamed twice"]) == (0, 0)


@pytest.mark.prove
@pytest.mark.timeout(3600)
def test_standbys_promoted_again_and_again(place: Path) -> None:
    verdict = spark.promote(place / "promotions", PROMOTIONS, random.Random(7))
    print(f"\n{PROMOTIONS} standbys promoted: {verdict}")
    assert (verdict["lost by the archive"], verdict["lost by the stream"]) == (0, 0)
