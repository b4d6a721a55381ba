"""A server in a thread of the test's own process, and clients for it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from penstock.settings import Settings
from penstock.sqs.auth import key_storage
from penstock.sqs.auth.access_keys import AccessKey, Role
from penstock.sqs.http.http_server import Plan, Server, address, bind, settings_for
from penstock.sqs.server_options import Options
from tests.sqs import query_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADMIN = AccessKey("AKIAADMIN", "the-admin's-secret/+=", name="admin")
STRANGER = AccessKey("AKIASTRANGER", "the-stranger's-secret", account="111111111111", name="eve")
PUBLISHER = AccessKey("AKIAPUBLISHER", "secret-p", role=Role.PUBLISHER, name="pia")
CONSUMER = AccessKey("AKIACONSUMER", "secret-c", role=Role.CONSUMER, name="con")
NARROW = AccessKey("AKIANARROW", "secret-n", queues=("orders-*",), name="nora")
KEYS = (ADMIN, STRANGER, PUBLISHER, CONSUMER, NARROW)
_making = threading.Lock()


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs."""

    url: str
    dsn: str
    server: Server

    def boto3(self, key: AccessKey = ADMIN, *, protocol: str = "json", **options: Any) -> Any:
        """A client of either protocol that does not retry: tests want the first answer."""
        settings = {
            "endpoint_url": self.url,
            "region_name": "us-east-1",
            "aws_access_key_id": key.access_key,
            "aws_secret_access_key": key.secret,
            "config": Config(retries={"total_max_attempts": 1}),
        }
        # A session is not made for several threads.
        with _making:
            return _session(protocol).client("sqs", **(settings | options))


@cache
def _session(protocol: str) -> boto3.Session:
    """One for all clients of a protocol: it reads the model of the service once."""
    made = boto3.Session()
    if protocol == "query":
        query_model.use(made)
    return made


@contextmanager
def running(
    dsn: str,
    folder: Path,
    keys: tuple[AccessKey, ...] = KEYS,
    retry_for: timedelta = timedelta(seconds=5),
    **given: Any,
) -> Iterator[Running]:
    """Serve this database until the end of the block."""
    path = folder / "keys.toml"
    path.touch(mode=0o600)
    path.write_text("\n".join(key_storage.file_entry(key, None) for key in keys), encoding="utf-8")
    options = Options(port=0, key_file=path, access_log=False, **given)
    listening = bind(options)
    settings = settings_for(Settings(dsn=dsn, retry_for=retry_for), dsn)
    server = Server(Plan(settings, options))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), server.lifetime.problem
            thread.join(0.01)
        # Where it is, and not where it says that it is.
        yield Running(address(replace(options, public_url=None), listening), dsn, server)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
