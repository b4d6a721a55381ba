"""Secrets planted in every input, and looked for where they have no business."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from penstock.sqs.auth.access_keys import AccessKey
from prove.attack import served
from prove.attack.leaks import Titles, search
from prove.attack.secretive import NAMES, PLANTED
from prove.attack.wire import Line, as_bytes, form_of, form_request, json_request
from prove.model import Outcome, Part
from tests.sqs.raw import presigned

if TYPE_CHECKING:
    from prove.attack.served import Served
    from prove.model import Take

KEY = AccessKey("AKIASECRETS", PLANTED["secret"], name="sam")
ERRORS = "errors.txt"
_PATIENCE_SECONDS = 150
_COMMANDS = (
    ("doctor",),
    ("topic", "list"),
    ("queue", "list"),
    ("sqs-key", "list"),
    ("message", "publish", "nowhere", "--file", "payloads.jsonl"),
    ("message", "import", "nowhere", "payloads.jsonl"),
)


def play(take: Take) -> Outcome:
    chosen = "payloads_logged" if take.sabotaged else "-"
    with served.database() as dsn:
        home = Path(dsn.partition("host=")[2].partition(" ")[0])
        with (
            served.sqs(dsn, take.folder, (KEY,), "-", "--access-log") as server,
            Titles(dsn, PLANTED.values(), [os.getpid(), _postmaster(home)]) as titles,
        ):
            _live(dsn, take.folder, chosen)
            asyncio.run(_visit(server))
            _command_line(dsn, take.folder)
        shutil.copy(home / "log", take.folder / "postgresql.txt")
    files = sorted(take.folder.glob("*.txt"))
    found = [
        *search([file for file in files if file.name != ERRORS], PLANTED.values()),
        *search([take.folder / ERRORS], set(PLANTED.values()) - NAMES),
    ]
    (take.folder / "found.log").write_text("\n".join(found), encoding="utf-8")
    for line in (*found[:10], *titles.found):
        take.say(line)
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    total = len(found) + titles.found.total()
    return Outcome(
        {
            "secrets planted": len(PLANTED),
            "lines of logs, spans and errors": lines,
            "titles and queries looked at": titles.looks,
            "secrets found": total,
        },
        {"secrets found": total} if total else {},
    )


def _postmaster(home: Path) -> int:
    return int((home / "data" / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])


def _live(dsn: str, folder: Path, chosen: str) -> None:
    command = [sys.executable, "-m", "prove.attack.secretive", dsn, str(folder), chosen]
    with (folder / "output.txt").open("w", encoding="utf-8") as output:
        subprocess.run(
            command,
            cwd=served.ROOT,
            stdout=output,
            stderr=output,
            timeout=_PATIENCE_SECONDS,
            check=True,
        )


async def _visit(server: Served) -> None:
    """Requests of every kind of mistake; the server's log is told of all of them."""
    url, line = server.url, Line(server.url)
    message = {
        "QueueUrl": "q",
        "MessageBody": PLANTED["body"],
        "MessageAttributes": {"a": {"DataType": "String", "StringValue": PLANTED["attribute"]}},
    }
    body = json.dumps(message).encode()
    other = AccessKey(KEY.access_key, PLANTED["token"])
    query = f"Action=SendMessage&QueueUrl=q&MessageBody={quote(PLANTED['body'])}"
    for made in (
        json_request(url, "CreateQueue", b'{"QueueName": "q"}', KEY),
        json_request(url, "SendMessage", body, KEY),
        form_request(url, form_of("SendMessage", message), KEY),
        presigned(url, query, KEY),
        presigned(url, query, other),
        json_request(url, "SendMessage", body, other),
        json_request(url, "SendMessage", body[:-5], KEY),
        json_request(url, "SendMessage", body.replace(b'"q"', b'"nowhere"'), KEY),
        json_request(url, "SendMessage", body.replace(b"5ec7e7", b"5ec7e7\\u0000"), KEY),
        json_request(url, "DeleteMessage", _handle(), KEY),
        json_request(url, "ReceiveMessage", b'{"QueueUrl": "q"}', KEY),
        form_request(url, f"Action={PLANTED['body']}".encode(), KEY),
        form_request(url, query.encode(), KEY, f"/{PLANTED['token']}?x={PLANTED['token']}"),
    ):
        await line.once(as_bytes(made))
    await line.once(b"POST /" + PLANTED["token"].encode() + b" HTTP/9\r\n\r\n")


def _handle() -> bytes:
    return json.dumps({"QueueUrl": "q", "ReceiptHandle": PLANTED["token"]}).encode()


def _command_line(dsn: str, folder: Path) -> None:
    lines = [
        json.dumps({"payload": PLANTED["payload"]}),
        json.dumps({"payload": f"{PLANTED['payload']}\0"}),
    ]
    (folder / "payloads.jsonl").write_text("\n".join(lines), encoding="utf-8")
    addresses = (f"{dsn} password={PLANTED['password']}", f"{dsn} passwort={PLANTED['password']}")
    with (folder / "commands.txt").open("w", encoding="utf-8") as output:
        for address in addresses:
            for words in _COMMANDS:
                subprocess.run(
                    [sys.executable, "-m", "penstock.cli", *words],
                    cwd=folder,
                    env={**os.environ, "PENSTOCK_DSN": address},
                    stdout=output,
                    stderr=output,
                    timeout=_PATIENCE_SECONDS,
                    check=False,
                )


PART = Part(
    name="secrets",
    promise="What is in messages, headers, tasks, passwords and keys never shows up in logs, "
    "traces, process titles or error messages.",
    how="A unique text is planted in every input of the client, workers, tasks, SQS and the "
    "command line, in good calls and in every kind of bad one, with all loggers at DEBUG and spans "
    "recorded; then it is looked for in all logs (PostgreSQL's too), spans, errors and outputs, "
    "and all the while in the titles of processes and the queries of sessions.",
    sabotage="a line of the log that prints the payload",
    breaks=frozenset({"secrets found"}),
    play=play,
    enough={"secrets planted": 17, "lines of logs, spans and errors": 100},
)
