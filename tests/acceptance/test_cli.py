"""The command line on a real database: what it does, what it prints, how it fails."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.commandline import CommandLine

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from tests.fixtures.databases import Connect, Database

NOUNS = {
    "topic": ["create", "list", "delete", "tail"],
    "queue": [
        *("create", "list", "show", "delete", "purge", "keep-alive", "pause", "resume"),
        *("stats", "watch"),
    ],
    "message": [
        *("publish", "consume", "ack", "nack", "release", "extend", "browse", "peek", "state"),
        *("show", "tail", "move", "export", "import"),
    ],
    "dlq": ["list", "show", "requeue", "purge"],
}
COMMANDS = [
    *([verb] for verb in ("init", "doctor", "maintain", "metrics", "worker", "demo", "bench")),
    *([noun] for noun in NOUNS),
    *([noun, verb] for noun, verbs in NOUNS.items() for verb in verbs),
]


@pytest.fixture
def penstock(database: Database) -> CommandLine:
    return CommandLine(database.dsn)


@pytest.fixture
def billing(penstock: CommandLine) -> CommandLine:
    """The command line, with a queue "billing" on a topic "orders" that dies after one attempt."""
    penstock.ok("queue", "create", "billing", "--topic", "orders", "--max-attempts", "1")
    return penstock


# Help


@pytest.mark.parametrize("words", [[], *COMMANDS], ids=" ".join)
def test_every_help_text_ends_with_an_example(words: list[str]):
    text = CommandLine(None).ok(*words, "--help").out
    *_, last = re.split(r"\n\s*\n", text.strip())
    assert last.strip().startswith("Example: penstock")


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_lists_all_its_verbs(noun: str):
    text = CommandLine(None).ok(noun, "--help").out
    assert re.findall(r"^│ ([a-z][a-z-]*) ", text, re.MULTILINE) == NOUNS[noun]


def test_the_version_is_printed():
    assert re.fullmatch(r"penstock \d+\.\d+\.\d+\n", CommandLine(None).ok("--version").out)


# Topics and queues


def test_bench_hands_on_what_it_is_told():
    assert "--contestant" in CommandLine(None).ok("bench", "--", "--help").out
    assert CommandLine(None)("bench", "--scenario", "nonsense").code == 2


def test_a_dsn_of_mysql_says_what_lives_there():
    ran = CommandLine("mysql://app:geheim@localhost/shop")("topic", "list")
    assert ran.code == 1
    assert "topics and queues live in PostgreSQL" in ran.err
    assert "penstock task" in ran.err
    assert "geheim" not in ran.err


def test_a_topic_is_created_listed_and_deleted(penstock: CommandLine):
    assert penstock.ok("topic", "create", "orders").out == "topic orders is ready\n"
    assert penstock.ok("topic", "create", "orders", "--json").json["name"] == "orders"
    (topic,) = penstock.ok("topic", "list", "--json").json
    assert (topic["name"], topic["queue_count"]) == ("orders", 0)
    assert "orders" in penstock.ok("topic", "list").out
    penstock.ok("topic", "delete", "orders", "--yes")
    assert penstock.ok("topic", "list", "--json").json == []


def test_the_shared_options_may_stand_before_the_noun_or_at_the_end(database: Database):
    nowhere = CommandLine("postgresql://localhost:1/nowhere")
    assert nowhere.ok("--json", "--dsn", database.dsn, "topic", "list").json == []
    assert nowhere.ok("topic", "list", "--json", "--dsn", database.dsn).json == []


def test_a_queue_keeps_the_settings_it_was_given(penstock: CommandLine):
    penstock.ok(
        *("queue", "create", "shipping", "--topic", "orders", "--ordering", "fifo"),
        *("--max-attempts", "7", "--retry-base", "500ms", "--retry-cap", "1m", "--notify", "never"),
        *("--filter", '{"headers": {"region": "eu"}}', "--retention", "1d"),
    )
    shown = penstock.ok("queue", "show", "shipping", "--json").json
    assert shown["topic"] == "orders"
    assert shown["ordering"] == "fifo"
    assert shown["max_delivery_attempts"] == 7
    assert (shown["retry_base"], shown["retry_cap"]) == (0.5, 60.0)
    assert shown["notify"] == "never"
    assert shown["total_count"] == 0


def test_queues_are_listed_by_topic(penstock: CommandLine):
    penstock.ok("queue", "create", "a", "--topic", "one")
    penstock.ok("queue", "create", "b", "--topic", "two")
    listed = penstock.ok("queue", "list", "--topic", "two", "--json").json
    assert [queue["name"] for queue in listed] == ["b"]


def test_an_exclusive_queue_is_kept_alive(penstock: CommandLine):
    penstock.ok("queue", "create", "mine", "--exclusive", "--keep-alive", "1m")
    before = penstock.ok("queue", "show", "mine", "--json").json["keep_alive_until"]
    after = penstock.ok("queue", "keep-alive", "mine", "1h", "--json").json["keep_alive_until"]
    assert after > before


def test_a_purged_queue_is_empty_and_stays(billing: CommandLine):
    billing.ok("message", "publish", "orders", "1")
    billing.ok("message", "publish", "orders", "2")
    assert billing.ok("queue", "purge", "billing", "-y", "--json").json["purged"] == 2
    assert billing.ok("queue", "show", "billing", "--json").json["pending_count"] == 0


def test_a_deleted_queue_is_gone(billing: CommandLine):
    billing.ok("queue", "delete", "billing", "--yes")
    assert billing.ok("queue", "list", "--json").json == []
    assert [t["name"] for t in billing.ok("topic", "list", "--json").json] == ["orders"]


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "delete", "orders"),
        ("queue", "delete", "billing"),
        ("queue", "purge", "billing"),
        ("dlq", "purge"),
        ("init", "--remove"),
    ],
)
def test_nothing_is_destroyed_without_a_yes(billing: CommandLine, words: tuple[str, ...]):
    billing.ok("message", "publish", "orders", "1")
    ran = billing(*words, stdin="")
    assert ran.code == 2
    assert "--yes" in ran.err
    assert billing.ok("queue", "show", "billing", "--json").json["pending_count"] == 1


# Messages


def test_a_message_travels_from_publish_to_ack(billing: CommandLine):
    published = billing.ok(
        *("message", "publish", "orders", '{"order": 7, "note": "grün 🚚"}', "--json"),
        *("--key", "customer-7", "--priority", "5", "-H", "region=eu", "-H", "vip=true"),
        *("--correlation-id", "c-1", "--tenant", "acme"),
    ).json
    (message,) = billing.ok("message", "consume", "billing", "--json").lines
    assert message["id"] == published["message_id"]
    assert message["payload"] == {"order": 7, "note": "grün 🚚"}
    assert message["headers"] == {"region": "eu", "vip": True}
    assert (message["key"], message["priority"], message["attempt"]) == ("customer-7", 5, 1)
    assert (message["correlation_id"], message["tenant_id"]) == ("c-1", "acme")
    number = str(message["id"])
    assert billing.ok("message", "state", "billing", number).out == "claimed\n"
    acked = billing.ok("message", "ack", "billing", number, "-t", message["token"], "--json").json
    assert acked == {"acked": [message["id"]]}
    assert billing.ok("message", "state", "billing", number, "--json").json["state"] == "done"


def test_consume_with_ack_leaves_nothing_behind(billing: CommandLine):
    for number in range(3):
        billing.ok("message", "publish", "orders", str(number))
    lines = billing.ok("message", "consume", "billing", "-n", "10", "--ack", "--json").lines
    assert [message["payload"] for message in lines] == [0, 1, 2]
    shown = billing.ok("queue", "show", "billing", "--json").json
    assert (shown["completed_count"], shown["pending_count"]) == (3, 0)


def test_an_empty_queue_is_no_error(billing: CommandLine):
    ran = billing.ok("message", "consume", "billing", "--json")
    assert ran.out == ""
    assert "nothing to deliver" in billing.ok("message", "consume", "billing").err


def test_consume_waits_for_a_message(billing: CommandLine, db: psycopg.Connection[Any]):
    waiting = billing.start("message", "consume", "billing", "--wait", "30s", "--json")
    while not db.execute(
        "select 1 from pg_stat_activity where query like '%%consume_messages_batch%%' "
        "and datname = current_database() and pid <> pg_backend_pid()"
    ).fetchone():
        assert waiting.poll() is None
    db.execute("select penstock.publish_message('orders', '42')")
    out, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, err
    assert json.loads(out)["payload"] == 42


def test_a_released_message_comes_back_with_its_attempt_not_counted(billing: CommandLine):
    billing.ok("message", "publish", "orders", "1")
    (first,) = billing.ok("message", "consume", "billing", "--token", "t", "--json").lines
    billing.ok("message", "release", "billing", str(first["id"]), "--token", "t")
    (again,) = billing.ok("message", "consume", "billing", "--json").lines
    assert (again["id"], again["attempt"]) == (first["id"], 1)


def test_an_extended_claim_ends_later(billing: CommandLine):
    billing.ok("message", "publish", "orders", "1")
    (message,) = billing.ok("message", "consume", "billing", "-t", "t", "--json").lines
    words = ("message", "extend", "billing", str(message["id"]), "5m", "-t", "t", "--json")
    assert billing.ok(*words).json["claimed_until"] > message["claimed_until"]


@pytest.mark.parametrize(
    "words", [("ack",), ("nack",), ("release",), ("extend", "5m")], ids=lambda words: words[0]
)
def test_a_token_that_holds_nothing_changes_nothing(billing: CommandLine, words: tuple[str, ...]):
    billing.ok("message", "publish", "orders", "1")
    (message,) = billing.ok("message", "consume", "billing", "-t", "mine", "--json").lines
    verb, *rest = words
    number = str(message["id"])
    ran = billing("message", verb, "billing", number, *rest, "-t", "theirs")
    assert ran.code == 1
    assert f"error: this token does not hold message {number}" in ran.err
    assert billing.ok("message", "state", "billing", number).out == "claimed\n"


def test_browsing_claims_nothing(billing: CommandLine):
    for number in range(3):
        billing.ok("message", "publish", "orders", str(number))
    seen = billing.ok("message", "browse", "billing", "--limit", "2", "--json").lines
    assert [message["payload"] for message in seen] == [0, 1]
    words = ("message", "browse", "billing", "--after", str(seen[-1]["id"]), "--json")
    assert [message["payload"] for message in billing.ok(*words).lines] == [2]
    assert billing.ok("queue", "show", "billing", "--json").json["processing_count"] == 0


def test_a_delayed_message_is_said_to_be_delayed(billing: CommandLine):
    words = ("message", "publish", "orders", "1", "--delay", "1h", "--json")
    number = str(billing.ok(*words).json["message_id"])
    assert billing.ok("message", "consume", "billing", "--json").out == ""
    assert billing.ok("message", "state", "billing", number).out == "delayed\n"


def test_a_payload_comes_from_stdin(billing: CommandLine):
    billing.ok("message", "publish", "orders", stdin='{"from": "a pipe"}\n')
    billing.ok("message", "publish", "orders", "-", "--text", stdin="plain words")
    lines = billing.ok("message", "consume", "billing", "-n", "2", "--json").lines
    assert [message["payload"] for message in lines] == [{"from": "a pipe"}, "plain words"]


def test_a_file_publishes_one_message_a_line_in_order(billing: CommandLine, tmp_path: Path):
    orders = [{"order": n, "customer": f"c{n % 3}"} for n in range(1200)]
    file = tmp_path / "orders.jsonl"
    file.write_text("".join(json.dumps(order) + "\n" for order in orders) + "\n")
    words = ("message", "publish", "orders", "-f", str(file), "--key-from", "customer", "-H", "a=1")
    assert billing.ok(*words, "--json").json == {"topic": "orders", "published": 1200}
    lines = billing.ok("message", "consume", "billing", "-n", "1200", "--json").lines
    assert [message["payload"] for message in lines] == orders
    assert [message["key"] for message in lines[:3]] == ["c0", "c1", "c2"]
    assert lines[0]["headers"] == {"a": 1}


def test_a_file_with_a_bad_line_publishes_nothing(billing: CommandLine, tmp_path: Path):
    file = tmp_path / "orders.jsonl"
    file.write_text("1\n" * 700 + "{oops\n")
    ran = billing("message", "publish", "orders", "-f", str(file), COLUMNS="500")
    assert ran.code == 2
    assert "line 701" in ran.err
    assert billing.ok("queue", "show", "billing", "--json").json["pending_count"] == 0


def test_the_same_dedupe_key_publishes_once(billing: CommandLine):
    words = ("message", "publish", "orders", "1", "--dedupe-key", "k", "--json")
    assert billing.ok(*words).json == billing.ok(*words).json
    assert billing.ok("queue", "show", "billing", "--json").json["pending_count"] == 1


# Dead letters


@pytest.fixture
def dead(billing: CommandLine) -> list[int]:
    """Two dead letters."""
    for number in range(2):
        billing.ok("message", "publish", "orders", f'{{"order": {number}}}')
    lines = billing.ok("message", "consume", "billing", "-n", "2", "-t", "t", "--json").lines
    ids = [message["id"] for message in lines]
    billing.ok(*("message", "nack", "billing", *map(str, ids), "-t", "t", "--error", "no card"))
    return ids


def test_dead_letters_are_listed_and_shown_with_their_history(
    billing: CommandLine, dead: list[int]
):
    listed = billing.ok("dlq", "list", "billing", "--json").json
    assert sorted(letter["message_id"] for letter in listed) == sorted(dead)
    shown = billing.ok("dlq", "show", "billing", str(dead[0]), "--json").json
    assert (shown["payload"], shown["error"], shown["attempts"]) == ({"order": 0}, "no card", 1)
    assert len(shown["history"]) == 1
    assert "no card" in billing.ok("dlq", "list").out


def test_some_dead_letters_are_requeued(billing: CommandLine, dead: list[int]):
    assert billing.ok("dlq", "requeue", "billing", str(dead[1]), "--json").json["requeued"] == 1
    left = billing.ok("dlq", "list", "billing", "--json").json
    assert [letter["message_id"] for letter in left] == [dead[0]]
    (message,) = billing.ok("message", "consume", "billing", "-n", "5", "--json").lines
    assert message["id"] == dead[1]


def test_all_dead_letters_are_requeued_or_purged(billing: CommandLine, dead: list[int]):
    assert billing.ok("dlq", "requeue", "billing").out == "put 2 back into queue billing\n"
    lines = billing.ok("message", "consume", "billing", "-n", "2", "-t", "t", "--json").lines
    ids = [str(message["id"]) for message in lines]
    billing.ok("message", "nack", "billing", *ids, "-t", "t")
    assert billing.ok("dlq", "purge", "billing", ids[0], "--yes", "--json").json["purged"] == 1
    assert billing.ok("dlq", "purge", "--yes", "--json").json["purged"] == 1
    assert billing.ok("dlq", "list", "--json").json == []


def test_a_message_that_is_not_dead_is_not_shown_among_the_dead(billing: CommandLine):
    ran = billing("dlq", "show", "billing", "12345")
    assert ran.code == 1
    assert "error: queue billing has no dead letter with message id 12345" in ran.err


# Errors


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("message", "publish", "nowhere", "1"), "penstock topic create"),
        (("message", "consume", "nowhere"), "penstock queue create"),
        (("queue", "show", "nowhere"), "penstock queue list"),
        (("queue", "delete", "nowhere", "--yes"), "penstock queue list"),
        (("topic", "delete", "nowhere", "--yes"), "penstock topic list"),
        (("topic", "create", ""), "1 to 200"),
        (("topic", "create", "x" * 201), "1 to 200"),
        (("message", "consume", "billing", "-n", "0"), "hint:"),
        (("message", "consume", "billing", "-n", "99999999999"), "error:"),
        (("message", "ack", "billing", "99999999999999999999", "-t", "t"), "error:"),
        (("message", "publish", "orders", '"\\u0000"'), "error:"),
        (("queue", "create", "billing", "--topic", "orders", "--ordering", "fair"), "hint:"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_an_error_is_one_clear_line_and_exit_code_1(
    billing: CommandLine, words: tuple[str, ...], said: str
):
    ran = billing(*words)
    assert ran.code == 1
    assert ran.out == ""
    assert said in ran.err
    first, *rest = ran.err.splitlines()
    assert first.startswith("error: ")
    assert [line[:5] for line in rest] in ([], ["hint:"])


@pytest.mark.parametrize(
    "words",
    [
        ("queue", "create", "q", "--ordering", "random"),
        ("queue", "create", "q", "--retry-base", "soon"),
        ("queue", "create", "q", "--filter", "[]"),
        ("message", "publish", "orders", "not json"),
        ("message", "publish", "orders", "1", "--file", "x"),
        ("message", "publish", "orders", "-H", "novalue", "1"),
        ("message", "publish", "orders", "--file", "no-such-file"),
        ("message", "ack", "billing", "1"),
        ("message", "ack", "billing", "one", "-t", "t"),
        ("topic", "create"),
        ("topic", "rename"),
        ("nonsense",),
        ("topic", "list", "--dsn", ""),
        ("dashboard", "--port", "99999"),
        ("sqs", "--no-auth", "--port", "-1"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_is_exit_code_2_before_any_server_is_asked(words: tuple[str, ...]):
    ran = CommandLine("postgresql://localhost:1/nowhere")(*words)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:sw0rdfish@localhost:1/x",
        "postgresql://u:sw0rd@fish@localhost:1/x",
        "host=localhost port=1 user=u password=sw0rdfish",
        "u:sw0rdfish",
        "postgresql://u:sw0rdfish@[localhost/x",
        "postgresql://u:sw0rdfish@localhost:port/x",
    ],
)
@pytest.mark.parametrize("words", [("topic", "list"), ("doctor",), ("init",)], ids=" ".join)
def test_a_password_is_never_shown(dsn: str, words: tuple[str, ...]):
    ran = CommandLine(dsn)(*words)
    assert ran.code == 1
    assert "sw0rd" not in ran.out + ran.err
    assert "fish" not in ran.out + ran.err


def test_a_terminal_is_not_fooled_by_a_payload(billing: CommandLine):
    billing.ok("message", "publish", "orders", '"\\u001b[2J\\u009b"', "--key", "\x1b]0;x\x07")
    shown = billing.ok("message", "browse", "billing").out
    assert "\x1b" not in shown
    assert "\x9b" not in shown


def test_no_colour_reaches_a_pipe(billing: CommandLine):
    for words in (("queue", "list"), ("queue", "show", "billing"), ("doctor",)):
        assert "\x1b" not in billing(*words, FORCE_COLOR="").out


# The engine in a database


def test_init_installs_again_and_removes(empty_database: Database):
    penstock = CommandLine(empty_database.dsn)
    assert "is installed" in penstock.ok("init").out
    assert "is in place" in penstock.ok("init").out
    again = penstock.ok("init", "--json").json
    assert again["version_before"] == again["version"]
    penstock.ok("queue", "create", "q")
    assert penstock.ok("init", "--remove", "--yes", "--json").json["removed"] is True
    assert "run penstock init" in penstock("queue", "list").err


@pytest.mark.parametrize("words", [("topic", "list"), ("maintain",), ("demo",)], ids=" ".join)
def test_a_database_without_the_engine_says_what_to_run(
    empty_database: Database, words: tuple[str, ...]
):
    ran = CommandLine(empty_database.dsn)(*words)
    assert ran.code == 1
    assert "run penstock init" in ran.err


def test_doctor_finds_a_sound_database_sound(penstock: CommandLine):
    checks = penstock.ok("doctor", "--json").json
    assert all(check["ok"] for check in checks)
    named = [check["name"] for check in checks]
    first = ["package", "connection", "server", "server clock", "engine", "your roles"]
    assert named[: len(first)] == first
    assert len(named) > len(first)


def test_doctor_says_what_is_wrong_and_ends_with_1(empty_database: Database):
    ran = CommandLine(empty_database.dsn)("doctor", "--json")
    assert ran.code == 1
    wrong = [check for check in ran.json if not check["ok"]]
    assert [check["name"] for check in wrong] == ["engine"]
    assert "penstock init" in wrong[0]["advice"]


def test_maintain_tells_what_it_did(penstock: CommandLine):
    steps = penstock.ok("maintain", "--json").json
    assert steps
    assert all(step.keys() == {"step", "affected", "error"} for step in steps)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_maintain_repeats_until_it_is_asked_to_end(penstock: CommandLine, how: signal.Signals):
    running = penstock.start("maintain", "--every", "100ms", "--json")
    assert running.stdout is not None
    for _ in range(3):
        assert isinstance(json.loads(running.stdout.readline()), dict)
    running.send_signal(how)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 0
    assert err.splitlines()[-1] == "ended"


def test_a_role_without_rights_is_told_so(penstock: CommandLine, connect: Connect):
    connect().execute(
        "do $$ begin create role penstock_stranger login;"
        " exception when duplicate_object then null; end $$"
    )
    stranger = re.sub(r"user=\S+", "user=penstock_stranger", penstock.dsn or "")
    ran = CommandLine(stranger)("topic", "create", "orders")
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert "penstock_admin" in ran.err
