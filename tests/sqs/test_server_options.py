"""Options that the server refuses."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import InvalidSetting
from penstock.sqs.server_options import Options


@pytest.mark.parametrize(
    "given",
    [
        {"host": "0.0.0.0", "auth": False},
        {"host": "example.com", "auth": False},
        {"processes": 0},
        {"account": "1"},
        {"public_url": "queues"},
    ],
)
def test_options_that_can_not_be_meant_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        Options(**given)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.9.9.9"])
def test_without_signatures_loopback_is_fine(host: str) -> None:
    assert not Options(host=host, auth=False).auth
