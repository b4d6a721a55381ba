"""Plant faults in a copy of the engine, one at a time, and see whether the tests notice.

A test suite is worth what it catches.  Each mutation is a small textual change of `sql/` that
breaks one promise.  The copy is installed by the tests' own fixtures, on one server; the tests that
should notice run first, then all others that look at the engine.  A mutation that nobody notices
has SURVIVED: write the test that was missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("sql", "src", "tests", "pyproject.toml")
EVERYTHING = ("tests/sql", "tests/concurrency", "tests/conformance")
EXAMPLES = """\
examples:
  python tools/mutations.py --list                 what is planted, and where
  python tools/mutations.py --only ack-any-token   one mutation, with the tests' output on failure
  python tools/mutations.py --check                whether every text to replace is still there
"""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault: in `file`, `old` (found `times` times) becomes `new`."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    times: int = 1


CARE = "internal/claim_with_care.sql"
ACK = "functions/message/ack.sql"
MACHINE = "tests/conformance/test_state_machine.py"

MUTATIONS = (
    Mutation(
        "ack-any-token",
        "only the holder of a claim can ack it",
        ACK,
        "c.token = ack_messages.token and ",
        "",
        ("tests/sql/test_ack_nack_release.py",),
    ),
    Mutation(
        "ack-one-any-token",
        "only the holder of a claim can ack it (a message alone)",
        ACK,
        "c.token = ack_message.token and ",
        "",
        ("tests/sql/test_ack_nack_release.py",),
    ),
    Mutation(
        "ack-one-after-deadline",
        "an expired token changes nothing (a message alone)",
        ACK,
        "c.deadline > clock_timestamp() + "
        "(select s.clock_shift from penstock_data.settings s where s.single)",
        "true",
        ("tests/sql/test_ack_nack_release.py",),
    ),
    Mutation(
        "nack-any-token",
        "only the holder of a claim can nack, release, bury or extend it",
        "internal/claiming.sql",
        "c.queue_id = p_queue_id and c.token = p_token and c.first_id <= v_rest[1]",
        "c.queue_id = p_queue_id and c.first_id <= v_rest[1]",
        ("tests/sql/test_ack_nack_release.py",),
        times=2,
    ),
    Mutation(
        "ack-after-deadline",
        "an expired token changes nothing (ack of a whole claim)",
        ACK,
        "c.deadline > v_queue.now",
        "true",
        ("tests/sql/test_ack_nack_release.py",),
    ),
    Mutation(
        "nack-after-deadline",
        "an expired token changes nothing (parts of a claim, nack, release)",
        "internal/claiming.sql",
        "v_rest[1] = any (c.message_ids) and c.deadline > p_now",
        "v_rest[1] = any (c.message_ids)",
        ("tests/sql/test_ack_nack_release.py",),
        times=2,
    ),
    Mutation(
        "id-above-last",
        "what commits late is read: a window ends before the oldest open transaction",
        "internal/short_way.sql",
        "pg_snapshot_xmin(pg_current_snapshot())",
        "pg_snapshot_xmax(pg_current_snapshot())",
        ("tests/concurrency/test_late_committers.py",),
    ),
    Mutation(
        "open-forgotten",
        "what commits late is read: a window remembers who was open",
        CARE,
        "v_position.window_to := v_snapshot;",
        "v_position.window_to := format('%s:%s:', pg_snapshot_xmax(v_snapshot), "
        "pg_snapshot_xmax(v_snapshot))::pg_snapshot;",
        ("tests/concurrency/test_late_committers.py",),
    ),
    Mutation(
        "late-forgotten",
        "transactions open in one window are read in the next",
        "internal/windows.sql",
        "where pg_visible_in_snapshot(x.xid, p_to)",
        "where false",
        ("tests/concurrency/test_late_committers.py",),
    ),
    Mutation(
        "window-without-end",
        "a window ends where its snapshot does: what commits meanwhile is not read twice",
        CARE,
        "and pg_visible_in_snapshot(m.xid, v_position.window_to)\n            order by",
        "\n            order by",
        ("tests/concurrency/test_late_committers.py",),
        times=2,
    ),
    Mutation(
        "own-transaction-forgotten",
        "what a transaction publishes after its own claim is not taken for read",
        "internal/windows.sql",
        "if v_me is null or",
        "if true or v_me is null or",
        ("tests/sql/test_own_transaction.py", "tests/concurrency/test_late_committers.py"),
    ),
    Mutation(
        "no-claim-lock",
        "two claims on one queue take turns",
        "internal/locks.sql",
        "return pg_try_advisory_xact_lock(1346719315, hashtext(p_queue_name)) or "
        "penstock_data.await_queue_lock(p_queue_name);",
        "return true;",
        ("tests/concurrency/test_claims.py",),
    ),
    Mutation(
        "retry-not-counted",
        "every claim counts as an attempt",
        "internal/pick_scheduled.sql",
        "array_agg(p.attempt + 1) as attempts",
        "array_agg(greatest(p.attempt, 1)) as attempts",
        ("tests/sql/test_dead_letters.py",),
    ),
    Mutation(
        "crash-not-counted",
        "attempts are counted when claimed: a crash has used one",
        "internal/put_back.sql",
        "coalesce(u.attempt, 1) - (p_outcome = 'released')::int",
        "coalesce(u.attempt, 1) - (p_outcome in ('released', 'expired'))::int",
        ("tests/sql/test_dead_letters.py",),
    ),
    Mutation(
        "release-counted",
        "release gives the attempt back",
        "internal/put_back.sql",
        "coalesce(u.attempt, 1) - (p_outcome = 'released')::int",
        "coalesce(u.attempt, 1)",
        ("tests/sql/test_ack_nack_release.py",),
    ),
    Mutation(
        "dead-too-early",
        "a message dies at max_delivery_attempts and only then",
        "internal/put_back.sql",
        "coalesce(u.attempt, 1) >= v_queue.max_delivery_attempts",
        "coalesce(u.attempt, 1) + 1 >= v_queue.max_delivery_attempts",
        ("tests/sql/test_dead_letters.py",),
    ),
    Mutation(
        "dead-too-late",
        "a message is never delivered more than max_delivery_attempts times",
        "internal/put_back.sql",
        "coalesce(u.attempt, 1) >= v_queue.max_delivery_attempts",
        "coalesce(u.attempt, 1) > v_queue.max_delivery_attempts",
        ("tests/sql/test_dead_letters.py",),
    ),
    Mutation(
        "no-backoff",
        "a failed message waits for its retry",
        "internal/put_back.sql",
        "case when p_outcome = 'failed'\n",
        "case when false\n",
        ("tests/sql/test_ack_nack_release.py",),
    ),
    Mutation(
        "claims-never-end",
        "a claim takes back what expired",
        "internal/put_back.sql",
        "d.deadline >= p_from and d.deadline <= p_now",
        "d.deadline >= p_from and d.deadline <= p_now - interval '1 day'",
        ("tests/sql/test_consume.py",),
    ),
    Mutation(
        "extension-forgotten",
        "extending moves the deadline",
        "functions/message/extend.sql",
        "p.deadline + make_interval(secs => extension_seconds)",
        "p.deadline",
        ("tests/sql/test_extend.py",),
    ),
    Mutation(
        "no-full-scan",
        "a claim that was passed over because an ack held it is found below the floor",
        CARE,
        "v_full := v_now >= v_position.full_scan_at;",
        "v_full := false;",
        ("tests/concurrency/test_acks.py",),
    ),
    Mutation(
        "late-not-lifted",
        "what is given back while a claim runs is found at once",
        "internal/given_back.sql",
        "if v_places <> '{}' then",
        "if p_full and v_places <> '{}' then",
        ("tests/concurrency/test_claims.py",),
    ),
    Mutation(
        "late-giver-forgotten",
        "what is given back by a transaction that was open at the last look is found at once",
        "internal/given_back.sql",
        "where s.queue_id = p_queue_id and s.xid = x.xid",
        "where s.queue_id = p_queue_id and false",
        ("tests/concurrency/test_claims.py",),
    ),
    Mutation(
        "due-time-forgotten",
        "a delayed message is claimed when its time has come",
        "internal/claiming.sql",
        "select min(s.visible_at)\n",
        "select null::timestamptz\n",
        ("tests/sql/test_ack_nack_release.py", "tests/sql/test_priority_and_delay.py"),
    ),
    Mutation(
        "turn-already-passed",
        "fair: what comes back gets a turn that is still to come",
        "internal/lanes.sql",
        "case when p_message_id <= p_turn_id then 1 else 0 end",
        "0",
        ("tests/sql/test_fair.py",),
    ),
    Mutation(
        "lane-never-busy",
        "fifo: one message of a key at a time",
        "internal/lanes.sql",
        "coalesce(l.busy, false) as busy",
        "false as busy",
        ("tests/sql/test_fifo.py",),
    ),
    Mutation(
        "dead-head-keeps-lane",
        "fifo: a dead head makes way for the next",
        "internal/lanes.sql",
        "r.outcome in ('acked', 'dead', 'lapsed')",
        "r.outcome in ('acked', 'lapsed')",
        ("tests/sql/test_fifo.py",),
        times=2,
    ),
    Mutation(
        "fair-without-turns",
        "fair: keys take turns",
        "internal/lanes.sql",
        "coalesce(l.next_rank + e.nth - 1, e.turn)",
        "0",
        ("tests/sql/test_fair.py",),
    ),
    Mutation(
        "fair-one-turn-for-all",
        "fair: every priority takes turns for itself",
        "internal/lanes.sql",
        "select coalesce(p_position.level_turns[array_position("
        "coalesce(p_position.levels, '{0}'), p_priority)], 0)",
        "select coalesce(p_position.turn, 0)",
        ("tests/conformance/test_fair_turns.py",),
    ),
    Mutation(
        "priority-reversed",
        "higher priority first",
        "internal/levels.sql",
        "unnest(v_old || p_new) l order by l desc",
        "unnest(v_old || p_new) l order by l",
        ("tests/sql/test_priority_and_delay.py",),
    ),
    Mutation(
        "low-priority-overtakes",
        "priorities below zero come after plain messages in the log",
        "internal/levels.sql",
        "where level.priority >= 0\n",
        "where true\n",
        ("tests/conformance/test_low_priorities.py",),
    ),
    Mutation(
        "filter-ignored",
        "a filtered queue gets what its filter lets through",
        "internal/schedule.sql",
        "select p_filter is null\n",
        "select true\n",
        ("tests/sql/test_filters.py",),
    ),
    Mutation(
        "expiry-ignored",
        "a message whose time is over is not delivered",
        "internal/pick_scheduled.sql",
        "least(m.expires_at, m.published_at + p_queue.retention) <= p_now",
        "false",
        ("tests/sql/test_publish.py", "tests/sql/test_priority_and_delay.py"),
    ),
    Mutation(
        "dedupe-for-ever",
        "a dedupe key is forgotten after its window",
        "internal/publishing.sql",
        "where d.until <= p_now",
        "where false",
        ("tests/sql/test_dedupe.py",),
    ),
    Mutation(
        "dedupe-never",
        "a dedupe key holds for its window",
        "internal/publishing.sql",
        "where d.until <= p_now",
        "where true",
        ("tests/sql/test_dedupe.py",),
    ),
    Mutation(
        "no-evacuation",
        "a straggler keeps its message when its segment is emptied",
        "internal/segments.sql",
        "where m.segment = p_segment and m.topic_id = n.topic_id and m.id = n.message_id;",
        "where false;",
        ("tests/sql/test_segments.py",),
    ),
    Mutation(
        "unread-emptied",
        "a segment with unread messages is kept",
        "internal/segments.sql",
        "m.xid >= pg_snapshot_xmax(p.seen)",
        "false",
        ("tests/sql/test_segments.py",),
    ),
    Mutation(
        "late-emptied",
        "a segment with messages of open transactions is kept",
        "internal/segments.sql",
        "m.xid = any (penstock_data.open_xids(p.seen))",
        "false",
        ("tests/concurrency/test_segments.py", "tests/sql/test_segments.py"),
    ),
    Mutation(
        "retention-ignored",
        "a topic's retention keeps what was read",
        "internal/segments.sql",
        "where p_closed_at + t.retention > p_now",
        "where false",
        ("tests/sql/test_segments.py",),
    ),
    Mutation(
        "kept-swept-away",
        "evacuated messages stay as long as somebody needs them",
        "internal/segments.sql",
        "and not exists (select from penstock_data.needed_messages() n",
        "and true or false and not exists (select from penstock_data.needed_messages() n",
        ("tests/sql/test_segments.py",),
    ),
    Mutation(
        "new-segment-at-once",
        "a new segment is used once every transaction can know of it",
        "internal/segments.sql",
        "and not exists (select from pg_locks l where l.virtualtransaction = any (s.unaware))",
        "",
        ("tests/conformance/test_new_segments.py",),
    ),
    Mutation(
        "purge-keeps-claims",
        "tokens are void after a purge",
        "internal/queue_settings.sql",
        "while exists (select from penstock_data.claims c where c.queue_id = p_queue_id) loop",
        "while false loop",
        ("tests/sql/test_queues.py",),
    ),
    Mutation(
        "notified-again-and-again",
        "a transaction notifies a channel once",
        "internal/wakeups.sql",
        "if position(chr(1) || v_channel || chr(1) in v_woken) = 0 then",
        "if true then",
        ("tests/sql/test_wakeups.py", "tests/conformance/test_stale_waits.py"),
    ),
    Mutation(
        "notified-for-ever",
        "nobody is notified who no longer waits",
        "internal/wakeups.sql",
        "where w.topic_id = p_topic_id and w.until > penstock_data.clock()",
        "where w.topic_id = p_topic_id",
        ("tests/sql/test_wakeups.py", "tests/conformance/test_stale_waits.py"),
    ),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutation."""

    mutation: Mutation
    caught_by: str | None
    seconds: float
    trouble: str = ""  # the run told nothing: the mutated engine doesn't install, or pytest broke

    @property
    def good(self) -> bool:
        return self.caught_by is not None and not self.trouble


def missing(mutation: Mutation) -> str | None:
    """Why the mutation can't be planted any more, or None."""
    path = ROOT / "sql" / mutation.file
    found = path.read_text(encoding="utf-8").count(mutation.old) if path.is_file() else 0
    if found == mutation.times:
        return None
    return f"{mutation.name}: sql/{mutation.file} has its text {found} times, not {mutation.times}"


@contextmanager
def planted(mutation: Mutation | None) -> Iterator[Path]:
    """A copy of what the tests need, with the fault in it."""
    with tempfile.TemporaryDirectory(prefix="penstock-mutation-") as folder:
        copy = Path(folder)
        ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=ignored)
            else:
                shutil.copy(source, copy / name)
        if mutation is not None:
            path = copy / "sql" / mutation.file
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        yield copy


def already_red(chosen: list[Mutation], server: str) -> str | None:
    """A test that fails without any fault, and would seem to catch one."""
    paths = dict.fromkeys(path for mutation in chosen for path in (*mutation.tests, MACHINE))
    with planted(None) as copy:
        failed, trouble = run(copy, [path for path in paths if (ROOT / path).exists()], server)
    return failed or trouble or None


def judge(mutation: Mutation, server: str) -> Verdict:
    """Run the tests on the mutated engine, the likely ones first."""
    started = time.monotonic()
    caught, trouble = None, ""
    with planted(mutation) as copy:
        for paths in (mutation.tests, (MACHINE,), EVERYTHING):
            there = [path for path in paths if (ROOT / path).exists()]
            if not there or caught or trouble:
                continue
            caught, trouble = run(copy, there, server)
    return Verdict(mutation, caught, time.monotonic() - started, trouble)


def run(copy: Path, paths: list[str], server: str) -> tuple[str | None, str]:
    """The first test that fails, and what went wrong with the run itself."""
    words = ["-q", "-x", "-p", "no:cacheprovider", "--tb=line", "--timeout", "600"]
    # This one looks for the very texts that mutations replace.
    words += ["--ignore", "tests/conformance/test_mutations.py"]
    command = [sys.executable, "-m", "pytest", *words, "--server", server, *paths]
    environment = os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PENSTOCK_NO_SHRINK": "1",
    }
    done = subprocess.run(
        command, cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    failed = re.search(r"^FAILED (\S+?::[^\s\[]+)", done.stdout, re.MULTILINE)
    if done.returncode == 0:
        return None, ""
    if done.returncode == 1 and failed:
        return failed[1], ""
    return None, (done.stdout + done.stderr).strip()[-2000:] or f"pytest gave {done.returncode}"


def show(verdicts: list[Verdict], console: Console) -> None:
    """The table, and the output of runs that broke."""
    table = Table("mutation", "breaks", "caught by", "seconds", title="planted mutations")
    for verdict in verdicts:
        outcome = verdict.caught_by or ("[red]BROKEN" if verdict.trouble else "[red]SURVIVED")
        outcome = outcome.replace("tests/", "")
        mutation = verdict.mutation
        table.add_row(mutation.name, mutation.breaks, outcome, f"{verdict.seconds:.0f}")
    console.print(table)
    for verdict in verdicts:
        if verdict.trouble:
            console.print(f"[red]{verdict.mutation.name}[/] did not run:\n{verdict.trouble}")
    caught = sum(verdict.good for verdict in verdicts)
    console.print(f"{caught} of {len(verdicts)} caught")


def show_list(mutations: list[Mutation], console: Console) -> None:
    table = Table("mutation", "breaks", "file", title="mutations")
    for mutation in mutations:
        table.add_row(mutation.name, mutation.breaks, mutation.file)
    console.print(table)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="show the mutations and stop")
    parser.add_argument("--check", action="store_true", help="only see whether all can be planted")
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="this mutation (repeatable)"
    )
    parser.add_argument("--server", default="pg18", help="the server to test on (pg18)")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at a time (2)")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    console = Console(soft_wrap=not sys.stdout.isatty())
    known = {mutation.name: mutation for mutation in MUTATIONS}
    if unknown := set(given.only or ()) - set(known):
        console.print(f"[red]no such mutation: {', '.join(sorted(unknown))}; see --list")
        return 2
    chosen = [known[name] for name in given.only or known]
    if given.list:
        show_list(chosen, console)
        return 0
    if gone := [why for mutation in chosen if (why := missing(mutation))]:
        console.print("[red]the engine has changed; bring these up to date:\n" + "\n".join(gone))
        return 1
    if given.check:
        console.print(f"{len(chosen)} mutations can be planted")
        return 0
    if red := already_red(chosen, given.server):
        console.print(f"[red]without any mutation the tests must pass, but:[/] {red}")
        return 1
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for verdict in pool.map(lambda mutation: judge(mutation, given.server), chosen):
            verdicts.append(verdict)
            said = "caught" if verdict.good else "[red]not caught[/]"
            console.print(f"{len(verdicts)}/{len(chosen)} {verdict.mutation.name}: {said}")
    show(verdicts, console)
    return 0 if all(verdict.good for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
