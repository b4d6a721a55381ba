"""Faults of the task stores: each promise once, on whichever store is quickest to tell."""

from __future__ import annotations

from tools.planted.mutation import Mutation, Suite

_MACHINE = "tests/tasks/test_state_machine.py"
_ROOT = "src/penstock/tasks"
POSTGRES = Suite(_ROOT, _MACHINE, ("tests/tasks",))
MARIADB = Suite(_ROOT, _MACHINE, ("tests/tasks",), "mariadb")
MEMORY = Suite(_ROOT, _MACHINE, ("tests/tasks",), "memory")

_PG = "stores/postgres_statements.sql"
_MY = "stores/mysql_statements.sql"
_RULES = "tests/tasks/conformance"
_FENCE = "lease_owner = %(owner)s and attempts = %(attempt)s"

MUTATIONS = (
    Mutation(
        "task-fence-any-attempt",
        "an earlier attempt of the same owner can't ack, release, extend or bury",
        _PG,
        _FENCE,
        "lease_owner = %(owner)s",
        (_MACHINE,),
        times=3,
        suite=POSTGRES,
    ),
    Mutation(
        "task-fence-any-attempt-mysql",
        "an earlier attempt of the same owner can't ack, release, extend or bury",
        _MY,
        _FENCE,
        "lease_owner = %(owner)s",
        (_MACHINE, f"{_RULES}/test_leases.py"),
        times=3,
        suite=MARIADB,
    ),
    Mutation(
        "task-fence-any-attempt-memory",
        "an earlier attempt of the same owner can't ack, release, extend or bury",
        "stores/memory_store.py",
        "(task.lease_owner, task.attempts) != (lease.owner, lease.attempt)",
        "task.lease_owner != lease.owner",
        (_MACHINE,),
        suite=MEMORY,
    ),
    Mutation(
        "task-fence-any-owner",
        "another owner can't ack, release, extend or bury",
        _PG,
        _FENCE,
        "attempts = %(attempt)s",
        (_MACHINE, f"{_RULES}/test_leases.py"),
        times=3,
        suite=POSTGRES,
    ),
    Mutation(
        "task-lease-never-ends",
        "a lease that ended is reserved by the next worker without a sweeper",
        _PG,
        "where status = 'leased' and lease_until <= (select now from clock)",
        "where false",
        (_MACHINE,),
        suite=POSTGRES,
    ),
    Mutation(
        "task-expired-delivered",
        "a task is never delivered after it expired",
        "stores/store_rules.py",
        "    if expired:\n        return Chore.EXPIRE\n",
        "",
        (_MACHINE, f"{_RULES}/test_reserve.py"),
        suite=MEMORY,
    ),
    Mutation(
        "task-never-dead",
        "a task whose lease ended in its last attempt is dead",
        "stores/store_rules.py",
        "if task.attempts >= task.max_attempts:",
        "if False:",
        (_MACHINE,),
        suite=MEMORY,
    ),
    Mutation(
        "task-heads-by-age",
        "a high priority goes first, however long the backlog before it is",
        _MY,
        "order by {order} limit %(limit)s",
        "order by created_at, id limit %(limit)s",
        (f"{_RULES}/test_reserve.py",),
        suite=MARIADB,
    ),
    Mutation(
        "task-cap-without-lock",
        "caps hold exactly under concurrency",
        _PG,
        "select pg_advisory_xact_lock(7310521, %(key)s::int);",
        "select %(key)s::int;",
        ("tests/tasks/test_concurrency.py",),
        suite=POSTGRES,
    ),
    Mutation(
        "task-cap-without-lock-mysql",
        "caps hold exactly under concurrency",
        "stores/mysql_store.py",
        "lock = self._lock_name if capped else None",
        "lock = None",
        ("tests/tasks/test_concurrency.py",),
        suite=MARIADB,
    ),
    Mutation(
        "task-deadlock-told",
        "no deadlock or lock wait reaches the user",
        "stores/mysql_database.py",
        "    if code in _DEADLOCKS:\n",
        "    if False:\n",
        ("tests/tasks/test_concurrency.py",),
        suite=MARIADB,
    ),
    Mutation(
        "task-replay-leaves-letter",
        "a replay moves the dead letter",
        "stores/sql_store.py",
        'await session.run(dialect["drop_dlq"], {"numbers": sorted(moved)})',
        "pass",
        (_MACHINE,),
        suite=POSTGRES,
    ),
    Mutation(
        "task-dedupe-while-open-forever",
        "while open ends when the first task is done",
        "stores/store_rules.py",
        "return holder.status is Status.LEASED or (holder.status in OPEN and not expired)",
        "return True",
        (_MACHINE, f"{_RULES}/test_dedupe.py"),
        suite=MEMORY,
    ),
    Mutation(
        "task-log-failure-told",
        "an attempt log that fails does not hold up the ack",
        "stores/sql_store.py",
        "except Exception as problem:  # noqa: BLE001 - whatever it is, the ack stands",
        "except ZeroDivisionError as problem:",
        (f"{_RULES}/test_attempt_log.py",),
        suite=POSTGRES,
    ),
    Mutation(
        "task-ack-repeated-blindly",
        "an ack whose answer was lost is known again",
        "stores/sql_store.py",
        "return await self._was_done(session, lease)",
        "return False",
        ("tests/tasks/test_lost_answers.py",),
        suite=MARIADB,
    ),
    Mutation(
        "task-purged-fire-again",
        "a purge does not make a schedule fire twice",
        _PG,
        "left(id, 5) <> 'cron-'",
        "true",
        ("tests/tasks/test_purged_fires.py",),
        suite=POSTGRES,
    ),
    Mutation(
        "task-binary-names",
        "keys that differ in case, accent or a trailing space are different",
        "stores/mysql_schema.sql",
        "utf8mb4_nopad_bin",
        "utf8mb4_general_ci",
        (f"{_RULES}/test_enqueue.py", f"{_RULES}/test_dedupe.py"),
        times=4,
        suite=MARIADB,
    ),
)
