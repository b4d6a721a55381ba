"""JSON as SQL callers hand it over: SQS actions, filters, headers, offsets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg

from prove.attack import mutations
from prove.attack.sqs_samples import REQUESTS
from prove.attack.targets import Target, text_of

if TYPE_CHECKING:
    import random

    from prove.attack.fuzzing import Tally

_JSON = "%s::text::jsonb"
_OFFSET = {"snap": "10:20:12,15", "next": 7, "since": None, "floors": {"t": 3}}
_CALLS: dict[str, tuple[str, Any]] = {
    "filter": (
        f"select penstock.create_queue('f', filter => {_JSON})",
        {"headers": {"region": "eu"}, "payload": {"a": [1, {"b": None}]}},
    ),
    "payload": (f"select penstock.publish_message('t', {_JSON})", {"a": [1.5, "ü", None]}),
    "headers": (
        f"select penstock.publish_message('t', '1', headers => {_JSON})",
        {"traceparent": "00-1", "n": 7},
    ),
    "search": (
        f"select * from penstock.find_messages('t', 'waiting', headers => {_JSON})",
        {"a": 1},
    ),
    "offset": (f"select * from penstock.next_offset('{{1}}', {_JSON})", _OFFSET),
    "target": (f"select * from penstock.next_offset('{{1}}', '{{}}', {_JSON})", _OFFSET),
    "receipts": (
        f"select * from penstock.next_receipts('{{1}}', {_JSON})",
        {"xid": "7", **_OFFSET},
    ),
    "stream": (f"select penstock.open_stream('s', '{{1}}', {_JSON})", _OFFSET),
}
# What the caller's own cast says before any function of ours is reached.
_CAST = ("22P02", "22P05", "22021", "22032", "54001", "54000")
_DOCUMENTED = ("PS", "PQ")


class Unexpected(Exception):
    """An error of the database that no page names."""


def attack(dsn: str, count: int, luck: random.Random, tally: Tally) -> None:
    """So many calls, each undone."""
    calls = dict(_CALLS)
    for action, request in REQUESTS.items():
        calls[action] = (f"select pgqs.invoke('{action}', {_JSON})", request)
    with psycopg.connect(dsn) as db:
        db.execute("select penstock.create_queue('t')")
        db.execute("""select pgqs.invoke('CreateQueue', '{"QueueName": "q"}')""")
        db.commit()
        db.execute("set statement_timeout = '20s'")
        db.commit()
        for name, (statement, sample) in calls.items():
            source = mutations.inputs([json.dumps(sample).encode()], luck)
            target = Target(f"sql {name}", lambda _: None, (), ())
            for _ in range(count // len(calls)):
                data = next(source)
                _call(db, statement, data, target, tally)
            tally.inputs["sql"] += count // len(calls)


def _call(
    db: psycopg.Connection[Any], statement: str, data: bytes, target: Target, tally: Tally
) -> None:
    text = text_of(data)
    if "\0" in text or any("\ud800" <= each <= "\udfff" for each in text):
        # No driver sends it.
        text = text.encode("utf-8", "replace").decode().replace("\0", "?")
    try:
        db.execute(statement.encode(), (text,))
    except psycopg.Error as problem:
        code = problem.sqlstate or ""
        if code.startswith(_DOCUMENTED) or (code in _CAST and _is_callers(problem)):
            tally.refused += 1
        else:
            try:
                raise Unexpected(f"{code} {str(problem)[:200]}") from problem
            except Unexpected as found:
                tally.note(target, data, found)
    finally:
        db.rollback()


def _is_callers(problem: psycopg.Error) -> bool:
    """Whether the caller's own cast failed: then no function of ours is around it."""
    return "function" not in (problem.diag.context or "")
