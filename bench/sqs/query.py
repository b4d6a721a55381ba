"""The older of SQS's protocols, forms out and XML back, for a server that knows no other."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode, urlsplit

_VERSION = "2012-11-05"
_QUEUE_URL = re.compile(rb"<QueueUrl>([^<]+)</QueueUrl>")
_HANDLE = re.compile(rb"<ReceiptHandle>([^<]+)</ReceiptHandle>")


class Query:
    """Requests without a signature, and of the answers what the phases want to know."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc

    def request(self, action: str, given: dict[str, Any]) -> bytes:
        """The bytes of one request; a queue is named by the path."""
        path = urlsplit(given.get("QueueUrl", "")).path or "/"
        form = urlencode({"Action": action, "Version": _VERSION, **_flat(action, given)})
        return (
            f"POST {path} HTTP/1.1\r\nhost: {self._host}\r\n"
            f"content-type: application/x-www-form-urlencoded\r\n"
            f"content-length: {len(form)}\r\n\r\n{form}"
        ).encode()

    def answer(self, body: bytes) -> dict[str, Any]:
        """The answer in the shape that the JSON protocol has."""
        found: dict[str, Any] = {
            "Messages": [{"ReceiptHandle": each.decode()} for each in _HANDLE.findall(body)]
        }
        if url := _QUEUE_URL.search(body):
            found["QueueUrl"] = url[1].decode()
        return found


def _flat(action: str, given: dict[str, Any]) -> dict[str, Any]:
    """Entries of a batch as numbered parameters."""
    flat = {name: value for name, value in given.items() if name not in {"QueueUrl", "Entries"}}
    for number, entry in enumerate(given.get("Entries", ()), 1):
        flat |= {f"{action}RequestEntry.{number}.{name}": entry[name] for name in entry}
    return flat
