"""The statement that takes the claim lock computes its columns before it locks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

SOURCE = "select p.prosrc from pg_proc p where p.proname = %s"


@pytest.mark.parametrize("function", ["consume_message", "consume_messages_batch"])
def test_the_last_id_is_read_before_the_lock_assigns_a_transaction_id(
    db: psycopg.Connection[Any], function: str
) -> None:
    found = db.execute(SOURCE, (function,)).fetchone()
    assert found is not None
    statement = re.search(
        r"select q\.id, q\.topic_id, q\.retention, q\.direct.*?skip locked", found[0], re.DOTALL
    )
    assert statement is not None
    text = re.sub(r"into v_queue", "", statement[0])
    variables = {
        "vt_seconds": "30",
        "queue_name": "'q'",
        "v_waited": "false",
        "v_queue.last_id": "null",
    }
    for name, stands_for in variables.items():
        text = text.replace(name, stands_for)
    plan = [row[0] for row in db.execute(f"explain (verbose, costs off) {text}".encode())]
    assert plan[0] == "LockRows"
    below = [line for line in plan[2:] if "Output:" in line]
    assert "last_message_id()" in below[0]
