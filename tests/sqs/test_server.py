"""The server as a process: the command line, several processes, TLS, keys in the table, signals."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from psycopg.conninfo import conninfo_to_dict

from penstock.errors import InvalidSetting
from penstock.settings import Settings
from penstock.sqs.auth import key_storage
from penstock.sqs.http.http_server import Plan, bind, serve
from penstock.sqs.server_options import Options
from tests.fixtures.databases import Database
from tests.fixtures.patience import eventually_sync
from tests.fixtures.proxy import Proxy
from tests.sqs import raw
from tests.sqs.running import ADMIN, Running, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.sqs.auth.access_keys import AccessKey
    from tests.fixtures.cluster import Server

MASTER = {"PENSTOCK_SQS_MASTER_KEY": base64.b64encode(b"k" * 32).decode()}


def _penstock(dsn: str, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", *words, "--json", "--dsn", dsn],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | MASTER,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def command(dsn: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """`penstock sqs` as a person starts it; the second value is what it says of itself."""
    command = [sys.executable, "-m", "penstock.cli", "sqs", "--port", "0", "--json", "--dsn", dsn]
    with subprocess.Popen(
        [*command, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | MASTER,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def key_file_of(folder: Path, *keys: AccessKey) -> Path:
    """A file for `--keys`."""
    path = folder / "keys.toml"
    path.touch(mode=0o600)
    path.write_text("\n".join(key_storage.file_entry(key, None) for key in keys), encoding="utf-8")
    return path


def _client(url: str, key: str, secret: str, **options: Any) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"max_attempts": 10}),
        **options,
    )


def test_a_key_of_the_table_signs_for_several_processes(fresh_dsn: str) -> None:
    made = _penstock(fresh_dsn, "sqs-key", "create", "--name", "bob")
    [listed] = _penstock(fresh_dsn, "sqs-key", "list")
    assert listed["access_key"] == made["access_key"]
    assert made["secret"] not in json.dumps(listed)
    with command(fresh_dsn, "--processes", "2", "--access-log") as (process, facts):
        sqs = _client(facts["url"], made["access_key"], made["secret"])
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        for number in range(20):
            sqs.send_message(QueueUrl=url, MessageBody=str(number))
        got: list[str] = []
        while len(got) < 20:
            messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
            got += [message["Body"] for message in messages]
        sqs.close()
        assert sorted(got) == sorted(map(str, range(20)))
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "SendMessage" in log


@pytest.mark.parametrize("processes", [1, 2])
def test_a_server_without_keys_says_what_to_do_and_ends(fresh_dsn: str, processes: int) -> None:
    plan = Plan(Settings(dsn=fresh_dsn), Options(port=0, processes=processes))
    announced: list[str] = []
    with pytest.raises(InvalidSetting, match="penstock sqs-key create"):
        serve(plan, announced.append)
    assert announced == []


def test_a_port_in_use_is_said_in_one_line(fresh_dsn: str) -> None:
    with bind(Options(port=0)) as taken:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "penstock.cli",
                "sqs",
                "--no-auth",
                "--dsn",
                fresh_dsn,
                "--port",
                str(taken.getsockname()[1]),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "can't listen" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_key_that_is_deleted_or_replaced_is_known_to_running_servers(
    fresh_dsn: str, tmp_path: Path
) -> None:
    made = _penstock(fresh_dsn, "sqs-key", "create")
    os.environ.update(MASTER)
    try:
        with running(fresh_dsn, tmp_path, housekeeping=dt.timedelta(seconds=0.1)) as door:
            keyring = door.server.application.keyring
            assert keyring.get(made["access_key"]) is not None
            _penstock(fresh_dsn, "sqs-key", "delete", made["access_key"], "--yes")
            eventually_sync(lambda: keyring.get(made["access_key"]) is None)
    finally:
        for name in MASTER:
            del os.environ[name]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost that the test trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


def test_tls(fresh_dsn: str, tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    with running(fresh_dsn, tmp_path, host="localhost", certificate=cert, private_key=key) as door:
        assert door.url.startswith("https://localhost:")
        sqs = _client(door.url, ADMIN.access_key, ADMIN.secret, verify=str(cert))
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.close()
        assert url.startswith("https://")


@pytest.mark.parametrize(
    ("options", "start"),
    [
        (
            {"public_url": "https://queues.example.com/x"},
            "https://queues.example.com/x/000000000000/q",
        ),
        ({"url_style": "region-path"}, "{url}/queue/us-east-1/000000000000/q"),
    ],
)
def test_queue_urls_have_the_form_that_was_asked_for(
    fresh_dsn: str, tmp_path: Path, options: dict[str, Any], start: str
) -> None:
    from penstock.sqs.protocol.queue_names import UrlStyle

    if "url_style" in options:
        options = {"url_style": UrlStyle(options["url_style"])}
    with running(fresh_dsn, tmp_path, **options) as door:
        sqs = door.boto3()
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        assert url == start.format(url=door.url)
        # Whatever its form, it is understood when it comes back.
        answer = raw.signed(door.url, "SendMessage", {"QueueUrl": url, "MessageBody": "x"}).send()
        sqs.close()
        assert answer.status == 200


def test_behind_a_proxy_the_clients_own_address_is_used(fresh_dsn: str, tmp_path: Path) -> None:
    with running(fresh_dsn, tmp_path, behind_proxy=True) as door:
        request = raw.signed(door.url, "CreateQueue", {"QueueName": "q"})
        request.headers |= {"x-forwarded-host": "out.example", "x-forwarded-proto": "https"}
        assert request.send().json["QueueUrl"] == "https://out.example/000000000000/q"


def test_health_and_metrics_need_no_signature(door: Running) -> None:
    health = raw.Raw(door.url, "GET", "/health").send()
    assert (health.status, health.json["status"]) == (200, "ok")
    raw.unsigned(door.url, "ListQueues", {}).send()
    metrics = raw.Raw(door.url, "GET", "/metrics").send().body.decode()
    assert 'penstock_sqs_faults_total{code="MissingAuthenticationToken"}' in metrics


def test_the_access_log_holds_no_bodies(
    fresh_dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import logging

    caplog.set_level(logging.DEBUG)
    with running(fresh_dsn, tmp_path) as door:
        door.server.application.metrics._access_log = True
        sqs = door.boto3()
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        caplog.clear()
        logging.getLogger("botocore").setLevel(logging.WARNING)
        sqs.send_message(QueueUrl=url, MessageBody="a secret thing")
        sqs.close()
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("penstock")]
    assert any(line.startswith("SendMessage 200") for line in lines)
    assert not any("secret thing" in line for line in lines)


def test_a_database_that_is_away_is_answered_with_503(
    wire_server: Server, fresh_dsn: str, tmp_path: Path
) -> None:
    name = str(conninfo_to_dict(fresh_dsn)["dbname"])
    at_once = dt.timedelta(0)
    with (
        Proxy(Database(wire_server, name)) as proxy,
        running(proxy.dsn, tmp_path, retry_for=at_once) as door,
    ):
        assert raw.signed(door.url, "ListQueues", {}).send().status == 200
        proxy.refusing = True
        proxy.cut()
        answer = raw.signed(door.url, "ListQueues", {}).send()
        assert (answer.status, answer.code) == (503, "ServiceUnavailable")
        assert raw.Raw(door.url, "GET", "/health").send().status == 503
        proxy.heal()
        eventually_sync(lambda: raw.signed(door.url, "ListQueues", {}).send().status == 200)
