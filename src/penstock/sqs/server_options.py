"""The options of the SQS server: one value, picklable, so that every process gets the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.addresses import is_loopback
from penstock.errors import InvalidSetting
from penstock.sqs.protocol.queue_names import DEFAULT_ACCOUNT, DEFAULT_REGION, UrlStyle, is_account

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_PORT = 9324
# A batch may hold 1 MiB of text.  As JSON each byte may take six ("\u0007"), percent-encoded three;
# what makes sense in practice is far below.
LARGEST_BODY = 8 * 1024 * 1024
_MOST_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class Options:
    """Defaults are those of a developer's machine; the guide has those for production."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    processes: int = 1

    auth: bool = True
    """Check signatures.  Without it, every client on the port owns all queues: loopback only."""
    key_file: Path | None = None
    key_table: bool = True
    """Take keys from the database's table as well."""

    public_url: str | None = None
    """What queue URLs begin with; without one, what the client itself called the server."""
    url_style: UrlStyle = UrlStyle.PATH
    behind_proxy: bool = False
    """Trust X-Forwarded-Host, -Proto and -For."""
    account: str = DEFAULT_ACCOUNT
    """Of requests that name none (only without signatures)."""
    region: str = DEFAULT_REGION

    certificate: Path | None = None
    private_key: Path | None = None

    largest_body: int = LARGEST_BODY
    header_deadline: timedelta = timedelta(seconds=10)
    """A request's head must be here by then, its body …"""
    body_deadline: timedelta = timedelta(seconds=30)
    """… and by then: slow clients hold a socket, never a database connection."""
    idle_deadline: timedelta = timedelta(seconds=65)
    """Between two requests; longer than the 60 s after which load balancers close."""
    grace: timedelta = timedelta(seconds=25)
    """How long requests under way may take to finish when the server stops."""
    access_log: bool = True
    housekeeping: timedelta = timedelta(seconds=5)
    """How often move tasks go on and expired things are put away."""

    def __post_init__(self) -> None:
        if not self.auth and not is_loopback(self.host):
            raise InvalidSetting(
                f"--no-auth would open every queue to every client that reaches {self.host}: "
                "it works on loopback only (127.0.0.1, ::1, localhost)"
            )
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidSetting("TLS needs both the certificate and its private key")
        if not 1 <= self.processes <= _MOST_PROCESSES:
            raise InvalidSetting(f"processes must be from 1 to {_MOST_PROCESSES}")
        if not is_account(self.account):
            raise InvalidSetting(f"{self.account!r} is no account: twelve digits are needed")
        if self.public_url is not None and not urlsplit(self.public_url).netloc:
            raise InvalidSetting("the public URL must look like https://queues.example.com")
