"""Other people's clients, unchanged: aiobotocore, the AWS command line, JavaScript, Celery."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiobotocore.session import get_session

from tests.sqs.running import ADMIN, Running

if TYPE_CHECKING:
    from collections.abc import Callable

NODE = Path(__file__).parent / "node"


async def test_aiobotocore(door: Running, new_name: Callable[..., str]) -> None:
    async with get_session().create_client(
        "sqs",
        endpoint_url=door.url,
        region_name="us-east-1",
        aws_access_key_id=ADMIN.access_key,
        aws_secret_access_key=ADMIN.secret,
    ) as sqs:
        url = (await sqs.create_queue(QueueName=new_name()))["QueueUrl"]
        entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(10)]
        assert (
            len((await sqs.send_message_batch(QueueUrl=url, Entries=entries))["Successful"]) == 10
        )
        got = (await sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10))["Messages"]
        assert sorted(message["Body"] for message in got) == sorted(f"m{n}" for n in range(10))
        for message in got:
            await sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        assert "Messages" not in await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)
        await sqs.delete_queue(QueueUrl=url)


class Aws:
    """`aws sqs …`, as a person types it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": ADMIN.access_key,
            "AWS_SECRET_ACCESS_KEY": ADMIN.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",
        }

    def __call__(self, *words: str) -> Any:
        program = Path(sys.executable).parent / "aws"
        done = subprocess.run(
            [
                sys.executable,
                program,
                "--endpoint-url",
                self._url,
                "sqs",
                *words,
                "--output",
                "json",
            ],
            capture_output=True,
            text=True,
            check=False,
            env=self._environment,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None


def test_the_aws_command_line(door: Running, new_name: Callable[..., str]) -> None:
    aws, name = Aws(door.url), new_name()
    url = aws("create-queue", "--queue-name", name, "--attributes", "VisibilityTimeout=60")[
        "QueueUrl"
    ]
    aws("send-message", "--queue-url", url, "--message-body", "from the shell")
    [message] = aws("receive-message", "--queue-url", url)["Messages"]
    assert message["Body"] == "from the shell"
    handle = message["ReceiptHandle"]
    aws("delete-message", "--queue-url", url, "--receipt-handle", handle)
    found = aws("get-queue-attributes", "--queue-url", url, "--attribute-names", "All")
    assert found["Attributes"]["ApproximateNumberOfMessages"] == "0"
    aws("delete-queue", "--queue-url", url)


@pytest.fixture(scope="session")
def node() -> str:
    """node with the packages of tests/sqs/node; skipped, visibly, where there is none."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        pytest.skip("node and npm are not installed")
    modules = NODE / "node_modules"
    modules.mkdir(exist_ok=True)
    wanted = (NODE / "package.json").read_text(encoding="utf-8")
    stamp = modules / ".installed"
    with (modules / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            words = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"]
            done = subprocess.run(words, cwd=NODE, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip("npm could not install the packages of tests/sqs/node")
            stamp.write_text(wanted, encoding="utf-8")
    return program


def _node(program: str, script: str, door: Running, **more: str) -> str:
    environment = {
        **os.environ,
        "SQS_URL": door.url,
        "SQS_KEY": ADMIN.access_key,
        "SQS_SECRET": ADMIN.secret,
        **more,
    }
    done = subprocess.run(
        [program, script], cwd=NODE, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_sdk_for_javascript(node: str, door: Running) -> None:
    assert _node(node, "story.js", door) == "done"


def test_sqs_consumer_does_a_real_job(
    node: str, door: Running, new_name: Callable[..., str]
) -> None:
    sqs = door.boto3()
    url = sqs.create_queue(QueueName=new_name())["QueueUrl"]
    for body in ("one", "twice", "two"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    assert _node(node, "consumer.mjs", door, QUEUE_URL=url) == "one,twice,twice,two"
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    sqs.close()
    assert counts["ApproximateNumberOfMessages"] == counts["ApproximateNumberOfMessagesNotVisible"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_celery_does_a_real_job(door: Running, new_name: Callable[..., str]) -> None:
    from celery import Celery
    from celery.contrib.testing.worker import start_worker

    address = door.url.removeprefix("http://")
    app = Celery("jobs", broker="sqs://")
    app.conf.update(
        broker_transport_options={
            "region": "us-east-1",
            "is_secure": False,
            "wait_time_seconds": 1,
            "polling_interval": 0.1,
            "endpoint_url": door.url,
        },
        broker_url=f"sqs://{ADMIN.access_key}:{_quoted(ADMIN.secret)}@{address}",
        task_default_queue=new_name("celery"),
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
    )
    done, sums = threading.Event(), []

    @app.task(name="jobs.add")
    def add(left: int, right: int) -> None:
        sums.append(left + right)
        done.set()

    with start_worker(app, perform_ping_check=False, shutdown_timeout=30):
        add.delay(2, 3)
        assert done.wait(60)
    assert sums == [5]


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
