"""The doors, each used with a name: what it does, what it says no with, and how it is undone."""

from __future__ import annotations

import json
import string
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import psycopg
from typer.testing import CliRunner

import penstock.sync
import penstock.tasks.sync
from penstock.cli.app import app
from penstock.errors import PenstockError
from penstock.spark.source.option_names import InvalidOption
from penstock.spark.source.source_options import read_options, write_options
from penstock.tasks.errors import TaskError
from penstock.tasks.options import Tables
from prove.attack.wire import form_of, form_request, json_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.sqs.auth.access_keys import AccessKey

Names = set[str]
_OF_TABLES = set(string.ascii_letters + string.digits + "_.")


class Door(Protocol):
    """One way in."""

    name: str
    refusals: tuple[type[Exception], ...]

    def use(self, name: str) -> Names:
        """Make things of this name, and use them; gives the names of the topics that it made."""
        ...

    def undo(self, name: str) -> None: ...


class Unclear(Exception):
    """What a person would not understand: a traceback, an undocumented error."""


class Sql:
    name = "sql"
    refusals = (psycopg.Error, UnicodeEncodeError)

    def __init__(self, dsn: str) -> None:
        self._db = psycopg.connect(dsn, autocommit=True)

    def use(self, name: str) -> Names:
        try:
            self._db.execute("select penstock.create_queue(%s)", (name,))
        except psycopg.Error as problem:
            _documented(problem)
            raise
        headers = json.dumps({name: name})
        self._db.execute(
            "select penstock.publish_message(%s, to_jsonb(%s::text), headers => %s::jsonb)",
            (name, name, headers),
        )
        row = self._db.execute(
            "select payload, headers from penstock.consume_message(%s, 'me')", (name,)
        ).fetchone()
        if row != (name, {name: name}):
            raise Unclear(f"{row!r} came back")
        return {name}

    def undo(self, name: str) -> None:
        self._db.execute("select penstock.delete_topic(%s)", (name,))


def _documented(problem: psycopg.Error) -> None:
    # Without a code it is the driver's: a NUL, which no text of PostgreSQL can hold.
    if problem.sqlstate is not None and not problem.sqlstate.startswith("PS"):
        raise Unclear(f"{problem.sqlstate}: {problem}") from problem


class Python:
    name = "python"
    refusals = (PenstockError,)

    def __init__(self, dsn: str) -> None:
        self._mq = penstock.sync.connect(dsn, pool_size=2).__enter__()

    def use(self, name: str) -> Names:
        self._mq.create_topic(name)
        self._mq.create_queue(name, topic=name)
        short = name[:200]
        self._mq.publish(
            name,
            {name: name},
            headers={name: name},
            key=short,
            correlation_id=short,
            tenant_id=short,
            dedupe_key=short,
        )
        for message in self._mq.browse(name):
            if message.payload != {name: name} or message.key != short:
                raise Unclear(f"{message!r} came back")
        return {name}

    def undo(self, name: str) -> None:
        self._mq.delete_topic(name)


class Tasks:
    name = "tasks"
    refusals = (TaskError,)

    def __init__(self, dsn: str) -> None:
        self._queue = penstock.tasks.sync.connect(dsn)
        self._queue.store.create_tables()
        self._queue.__enter__()

    def use(self, name: str) -> Names:
        if Tables(tasks="mq_tasks").tasks != "mq_tasks":
            raise Unclear("another table")
        number = self._queue.enqueue(name, name, tenant_id=name[:64], meta={name: name})
        found = self._queue.get(number)
        if found is None or (found.topic, found.meta) != (name, {name: name}):
            raise Unclear(f"{found!r} came back")
        try:
            Tables(tasks=name)
        except TaskError:
            return set()
        if set(name) - _OF_TABLES:
            raise Unclear("taken for a table")
        return set()

    def undo(self, name: str) -> None:
        """Tasks are rows of a table of their own."""


class Sqs:
    name = "sqs"
    refusals = (ConnectionRefusedError,)

    def __init__(self, url: str, key: AccessKey) -> None:
        self._url, self._key = url, key
        self._line = HTTPConnection(urlsplit(url).netloc, timeout=60)

    def use(self, name: str) -> Names:
        made = set()
        for action, request in (
            ("CreateQueue", {"QueueName": name}),
            ("GetQueueUrl", {"QueueName": name}),
            ("TagQueue", {"QueueUrl": name, "Tags": {name: name}}),
            ("SendMessage", {"QueueUrl": name, "MessageBody": name, "MessageGroupId": name[:128]}),
            ("ListQueues", {"QueueNamePrefix": name[:80]}),
        ):
            status = self._ask(action, request)
            if action == "CreateQueue" and status == 200:
                made.add(name)
        return made

    def undo(self, name: str) -> None:
        self._ask("DeleteQueue", {"QueueUrl": name})

    def _ask(self, action: str, request: dict[str, Any]) -> int:
        statuses = [self._sent(json_request(self._url, action, _body(request), self._key))]
        if action != "CreateQueue":
            statuses.append(
                self._sent(form_request(self._url, form_of(action, request), self._key))
            )
        if max(statuses) >= 500:
            raise Unclear(f"{action}: {statuses}")
        return statuses[0]

    def _sent(self, made: Any) -> int:
        self._line.request(made.method, made.target, made.body, made.headers)
        answer = self._line.getresponse()
        answer.read()
        return answer.status


def _body(request: dict[str, Any]) -> bytes:
    return json.dumps(request).encode()


class CommandLine:
    name = "command line"
    refusals = (ConnectionRefusedError,)

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._runner = CliRunner()

    def use(self, name: str) -> Names:
        if "\0" in name:
            # No process can be given such an argument.
            return set()
        made = self._run("topic", "create", "--", name)
        self._run("message", "publish", "--text", "--", name, name)
        self._run("queue", "show", "--", name)
        return {name} if made == 0 else set()

    def undo(self, name: str) -> None:
        self._run("topic", "delete", "--yes", "--", name)

    def _run(self, *words: str) -> int:
        done = self._runner.invoke(app, [*words], env={"PENSTOCK_DSN": self._dsn})
        if isinstance(done.exception, PenstockError):
            return 1
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise Unclear(f"{words[:2]}: {done.exception!r}") from done.exception
        return done.exit_code


class Spark:
    """Its options, in process: a name is a value there, and never a piece of SQL."""

    name = "spark options"
    refusals = (InvalidOption, TaskError)

    def use(self, name: str) -> Names:
        for option in ("subscribe", "subscribePattern", "topic", "tenant", "key", "group"):
            given = {"startingOffsets": "earliest", option: name}
            read_options(
                given if "opic" in option or "sub" in option else given | {"topic": "t"},
                stream=True,
            )
        write_options({"topic": name.replace(",", " "), "txnAppId": name or "x", "txnVersion": "1"})
        return set()

    def undo(self, name: str) -> None:
        """Nothing was made."""


@contextmanager
def in_process(dsn: str) -> Iterator[list[Door]]:
    """Those that need no server of their own."""
    python, tasks = Python(dsn), Tasks(dsn)
    try:
        yield [Sql(dsn), python, tasks, CommandLine(dsn), Spark()]
    finally:
        python._mq.__exit__(None, None, None)  # noqa: SLF001
        tasks._queue.__exit__(None, None, None)  # noqa: SLF001
