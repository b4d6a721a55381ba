"""`penstock dashboard` as a person starts it."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.acceptance.commandline import CommandLine

if TYPE_CHECKING:
    from tests.fixtures.databases import Database


def test_it_tells_its_address_and_tokens_and_stops_when_told(database: Database) -> None:
    process = CommandLine(database.dsn).start("dashboard", "--port", "0", "--json")
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        with httpx.Client(base_url=told["url"], timeout=30) as client:
            assert client.get("/healthz").text == "ok"
            assert client.get("/").headers["location"] == "/login"
            answer = client.post(
                "/login", data={"token": told["viewer_token"]}, headers={"Origin": told["url"]}
            )
            assert answer.status_code == 303
            assert "No queue yet" in client.get("/").text
            with client.stream("GET", "/events?page=overview") as stream:
                lines = stream.iter_lines()
                while not next(lines).startswith("event: regions"):
                    pass
                # An open stream does not hold it back.
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) in (0, 130)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_tokens_from_the_environment_are_not_printed(database: Database) -> None:
    tokens = {
        "PENSTOCK_DASHBOARD_OPERATOR_TOKEN": "an operators own token",
        "PENSTOCK_DASHBOARD_VIEWER_TOKEN": "a viewers own token",
    }
    process = CommandLine(database.dsn).start("dashboard", "--port", "0", "--json", **tokens)
    assert process.stdout is not None
    told = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert "own token" not in told + out + err


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("--host", "0.0.0.0", "--no-auth"), "loopback only"),
        (("--public-url", "nonsense"), "must look like"),
        (("--host", "256.0.0.1"), "can't listen"),
    ],
)
def test_a_dangerous_or_impossible_start_is_refused(
    database: Database, words: tuple[str, ...], advice: str
) -> None:
    ran = CommandLine(database.dsn)("dashboard", "--port", "0", *words)
    assert ran.code == 1
    assert advice in " ".join(ran.err.split())
