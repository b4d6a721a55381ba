"""Django: publishing is part of the request's transaction, and a command runs the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from tests.fixtures.databases import Database

SETTINGS = """
import os

SECRET_KEY = "for tests"
INSTALLED_APPS = ["penstock.integrations.django"]
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": os.environ["TEST_PORT"],
        "USER": "penstock",
        "NAME": os.environ["TEST_DATABASE"],
    }
}
PENSTOCK = {"WORKER": "shop:worker", "OPTIONS": {"pool_size": 3}}
"""
SHOP = """
import penstock
from django.db import connection
from penstock.integrations.django import client, fresh_connections

worker = penstock.Worker(client())

@worker.handler("orders")
@fresh_connections
def bill(message):
    with connection.cursor() as cursor:
        cursor.execute("insert into billed values (%s)", [message.payload["order"]])
    print("billed", message.payload["order"], flush=True)
"""


class Project:
    """A Django project in a folder of its own, run as its users run it."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder = folder
        (folder / "shop_settings.py").write_text(SETTINGS, encoding="utf-8")
        (folder / "shop.py").write_text(SHOP, encoding="utf-8")
        paths = [str(folder), *(path for path in sys.path if path)]
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "shop_settings",
            "TEST_PORT": str(database.server.port),
            "TEST_DATABASE": database.name,
            "PYTHONPATH": os.pathsep.join(paths),
        }

    def python(self, program: str) -> str:
        text = "import django; django.setup()\n" + textwrap.dedent(program)
        return self._run("-W", "error", "-c", text)

    def manage(self, *words: str, check: bool = True) -> str:
        return self._run("-m", "django", *words, check=check)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "django", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _run(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path, database: Database, db: psycopg.Connection[Any]) -> Project:
    db.execute("select penstock.create_queue('orders')")
    db.execute("create table billed (number bigint)")
    return Project(tmp_path, database)


def published(db: psycopg.Connection[Any]) -> list[Any]:
    query = "select payload from penstock.browse_messages('orders') order by message_id"
    return [payload for (payload,) in db.execute(query)]


def test_a_message_is_part_of_the_transaction(
    project: Project, db: psycopg.Connection[Any]
) -> None:
    project.python(
        """
        from django.db import transaction
        from penstock.integrations.django import publish, publish_many

        try:
            with transaction.atomic():
                publish("orders", {"order": 1})
                raise RuntimeError
        except RuntimeError:
            pass
        with transaction.atomic():
            assert publish("orders", {"order": 2}, key="ada", headers={"a": 1}) > 0
            publish_many("orders", [{"order": 3}, {"order": 4}], using="default")
        publish("orders", {"order": 5})
        """
    )
    assert [each["order"] for each in published(db)] == [2, 3, 4, 5]


def test_an_error_is_penstock_s_and_leaves_django_usable(project: Project) -> None:
    project.python(
        """
        from django.db import connection, transaction
        from penstock.errors import UnknownTopic
        from penstock.integrations.django import publish

        try:
            with transaction.atomic():
                publish("nowhere", {})
        except UnknownTopic:
            pass
        else:
            raise SystemExit("no error")
        with connection.cursor() as cursor:
            cursor.execute("select 1")
        """
    )


def test_the_command_runs_the_worker_until_it_is_told_to_stop(
    project: Project, db: psycopg.Connection[Any]
) -> None:
    db.execute("""select penstock.publish_message('orders', '{"order": 7}')""")
    process = project.start("penstock_worker")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "billed 7\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.communicate()
    assert db.execute("select number from billed").fetchall() == [(7,)]
    assert db.execute("select penstock.message_state('orders', 1)").fetchone() == ("done",)


@pytest.mark.parametrize(
    ("worker", "problem"),
    [("shop:client", "is a function and no penstock.Worker"), ("nowhere:w", "can't be imported")],
)
def test_a_wrong_worker_is_named(project: Project, worker: str, problem: str) -> None:
    assert problem in project.manage("penstock_worker", worker, check=False)


def test_a_misspelt_setting_is_named(project: Project) -> None:
    with (project.folder / "shop_settings.py").open("a", encoding="utf-8") as settings:
        settings.write('PENSTOCK = {"WORKERS": "shop:worker"}\n')
    assert "PENSTOCK has no WORKERS" in project.manage("penstock_worker", check=False)
