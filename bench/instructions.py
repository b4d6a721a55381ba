"""How many instructions a call costs, counted by callgrind: the same on a busy machine.

    python -m bench.instructions
    python -m bench.instructions --engine-sql OLD/sql/install.sql    beside another engine

The server runs in its single-user mode under valgrind, so there is no client, no network and no
other session.  Each call is a transaction of its own.  A short and a long run are compared, which
leaves out the start of the server and the first, planning calls.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import server as servers
from bench.peers.scripts import TEXTBOOK_CLAIM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.server import Server

ENGINE = Path(__file__).parents[1] / "sql" / "install.sql"
TEXTBOOK = Path(__file__).parent / "peers" / "textbook.sql"
SHORT, LONG = 60, 160
#: Enough for every call of a run, the largest ones included.
MESSAGES = 20_000

_COLLECTED = re.compile(r"Collected *: (\d+)")

_PREPARE = (
    "select penstock.create_topic('orders')",
    "select penstock.create_queue('q', 'orders')",
    f"""do $$ begin for i in 1..{MESSAGES // 100} loop
        perform penstock.publish_messages('orders', array_fill('{{"order": 1}}'::jsonb, '{{100}}'));
        commit; end loop; end $$""",
    f"""insert into textbook.message (queue, payload)
        select 'queue-0', '{{"order": 1}}' from generate_series(1, {MESSAGES})""",
    "vacuum analyze",
)


def _textbook_claim(size: int) -> str:
    claim = TEXTBOOK_CLAIM.format(batch=size)
    return f"with claimed as ({claim}) select array_agg(c.id) into v_ids from claimed c"


@dataclass(frozen=True, slots=True)
class Task:
    """What is counted: PL/pgSQL statements of the engine, and of a textbook queue."""

    name: str
    engine: str
    textbook: str


def _claim_and_ack(size: int) -> Task:
    return Task(
        f"claim {size}, ack {size}",
        "select array_agg(message_id) into v_ids "
        f"from penstock.consume_messages_batch('q', 'me', 600, {size}); commit; "
        "perform penstock.ack_messages('q', v_ids, 'me')",
        f"{_textbook_claim(size)}; commit; delete from textbook.message where id = any (v_ids)",
    )


_TEXTBOOK_ONE = f"{_textbook_claim(1)}; commit; delete from textbook.message where id = v_ids[1]"
TASKS = (
    Task(
        "publish 1",
        """perform penstock.publish_message('orders', '{"order": 1}')""",
        """insert into textbook.message (queue, payload) values ('queue-0', '{"order": 1}')""",
    ),
    Task(
        "claim 1, ack 1",
        "select message_id into v_id from penstock.consume_message('q', 'me', 600); commit; "
        "perform penstock.ack_message('q', v_id, 'me')",
        _TEXTBOOK_ONE,
    ),
    Task(
        "ack_and_consume 1",
        "select message_id into v_id from penstock.ack_and_consume('q', 'me', v_id, 600)",
        _TEXTBOOK_ONE,
    ),
    _claim_and_ack(10),
    _claim_and_ack(100),
)


def script(statements: str, rounds: int) -> str:
    """One line, as the single-user mode reads it."""
    body = " ".join(statements.split())
    return (
        "do $$ declare v_id bigint; v_ids bigint[]; "
        f"begin for i in 1..{rounds} loop {body}; commit; end loop; end $$;\n"
    )


def collected(said: str) -> int:
    """The count in what callgrind has written."""
    found = _COLLECTED.search(said)
    if found is None:
        raise servers.ServerError(f"valgrind has counted nothing:\n{said.strip()[-1000:]}")
    return int(found[1])


def _count(server: Server, database: str, statements: str) -> int:
    """Instructions of one round."""

    def run(rounds: int) -> int:
        # Both begin with the same data.
        copy = server.home / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "-a", server.data, copy], user=server.account, check=True)
        words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        words += [str(server.programs / "postgres"), "--single", "-D", str(copy), database]
        done = subprocess.run(
            words,
            input=script(statements, rounds),
            user=server.account,
            cwd=server.home,
            capture_output=True,
            text=True,
            check=False,
        )
        if "ERROR" in done.stderr:
            raise servers.ServerError(done.stderr.strip()[-1000:])
        return collected(done.stderr)

    return (run(LONG) - run(SHORT)) // (LONG - SHORT)


def _measured(choice: str, engines: Sequence[Path]) -> Iterator[tuple[str, list[int]]]:
    with servers.running(choice) as server:
        names = [f"engine_{number}" for number in range(len(engines))]
        for name, engine in zip(names, engines, strict=True):
            server.create_database(name)
            server.run_file(engine, name)
            server.run_file(TEXTBOOK, name)
            with server.admin(name) as connection:
                for statement in _PREPARE:
                    connection.execute(statement.encode())
        with server.stopped():
            for task in TASKS:
                counts = [_count(server, name, task.engine) for name in names]
                yield task.name, [*counts, _count(server, names[0], task.textbook)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pg", default=servers.usual(), help="embedded, system, or a folder of PostgreSQL programs"
    )
    parser.add_argument(
        "--engine-sql", type=Path, help="install.sql of another engine, counted beside this one"
    )
    chosen = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: it counts the instructions", file=sys.stderr)
        return 1
    engines = [ENGINE, *([chosen.engine_sql] if chosen.engine_sql else [])]
    heads = ["this engine", *(["other engine"] if chosen.engine_sql else []), "textbook"]
    print(f"{'instructions, thousands':24}" + "".join(f"{head:>14}" for head in heads))
    try:
        for name, counts in _measured(chosen.pg, engines):
            cells = "".join(f"{count / 1000:14,.0f}" for count in counts)
            print(f"{name:24}{cells}   {counts[0] / counts[-1]:5.2f} of the textbook", flush=True)
    except servers.ServerError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
