"""Every function, table and action against every role: what may be used, and what should be."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from tests.sql.test_roles_and_grants import CONSUMER, EVERYBODY, MONITOR, PUBLISHER
from tests.sqs_sql.test_rights import CONSUME, EVERYTHING, FIND, LOOK, SEND

if TYPE_CHECKING:
    from collections.abc import Iterator

    Session = psycopg.Connection[Any]

PREFIX = "penstock_"
ROLES = ("publisher", "consumer", "monitor", "admin")
STRANGER = "stranger"
SCHEMAS = ("penstock", "penstock_data", "penstock_stage", "pgqs", "pgqs_data")
_SQS = {"invoke", "invoke_many", "invoke_on", "engine_queue"}
# Of `penstock` and `pgqs`; an admin may call all of both.
_FUNCTIONS = {
    "publisher": {("penstock", each) for each in PUBLISHER | EVERYBODY},
    "consumer": {("penstock", each) for each in CONSUMER | EVERYBODY}
    | {("pgqs", "run_move_tasks"), ("penstock_data", "may_read")},
    "monitor": {("penstock", each) for each in MONITOR | EVERYBODY}
    | {("penstock_data", "queue_messages")},
    "admin": {("penstock_data", "may_read"), ("penstock_data", "queue_messages")},
}
_COUNTS = {("topics", "select"), ("queues", "select"), ("queue_messages", "select")}
_LOG = {("log", "select"), ("receipt_log", "select")}
_VIEWS = {
    "publisher": set(),
    "consumer": _LOG,
    "monitor": _COUNTS,
    "admin": _COUNTS
    | _LOG
    | {("messages", "select"), ("dead_letter_queue", "select"), ("queue_messages", "delete")},
}
_SHAPES = ("error_shapes", "select")
_ACTIONS = {
    "publisher": SEND | FIND,
    "consumer": CONSUME | FIND,
    "monitor": LOOK | FIND,
    "admin": EVERYTHING,
    STRANGER: set(),
}
_PRIVILEGES = ("select", "insert", "update", "delete", "truncate", "references", "trigger")


def may_call(role: str, schema: str, name: str) -> bool:
    """What the roles' page promises of a function."""
    if role == STRANGER:
        return False
    if schema == "pgqs" and name in _SQS:
        return True
    if role == "admin" and schema in ("penstock", "pgqs"):
        return True
    return (schema, name) in _FUNCTIONS[role]


def may_touch(role: str, schema: str, name: str, privilege: str) -> bool:
    """What it promises of a table or view."""
    if role == STRANGER or schema not in ("penstock", "pgqs"):
        return False
    if schema == "pgqs":
        return (name, privilege) == _SHAPES
    return (name, privilege) in _VIEWS[role]


class Inspector:
    """Compares a database with these promises."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.checked = 0
        self.unexpected: list[str] = []
        self.missing: list[str] = []

    def inspect(self) -> None:
        with self._logins() as logins, psycopg.connect(self._dsn, autocommit=True) as db:
            for role, login in logins.items():
                self._functions(db, role, login)
                self._tables(db, role, login)
                self._schemas(db, role, login)
                with psycopg.connect(self._dsn, user=login) as session:
                    self._calls(db, session, role)
                    self._actions(session, role)
            self._attributes(db)

    def _note(self, what: str, role: str, *, has: bool, should: bool) -> None:
        self.checked += 1
        if has and not should:
            self.unexpected.append(f"{role}: {what}")
        elif should and not has:
            self.missing.append(f"{role}: {what}")

    @contextmanager
    def _logins(self) -> Iterator[dict[str, str]]:
        """Somebody of each role, and somebody of none."""
        names = {role: f"{PREFIX}{role}_attacker" for role in (*ROLES, STRANGER)}
        with psycopg.connect(self._dsn, autocommit=True) as db:
            for role, name in names.items():
                db.execute(sql.SQL("create role {} login").format(sql.Identifier(name)))
                if role != STRANGER:
                    both = sql.Identifier(PREFIX + role), sql.Identifier(name)
                    db.execute(sql.SQL("grant {} to {}").format(*both))
            try:
                yield names
            finally:
                for name in names.values():
                    db.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
                    db.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))

    def _functions(self, db: Session, role: str, login: str) -> None:
        for schema, name, signature, has in db.execute(
            "select n.nspname, p.proname, p.oid::regprocedure::text,"
            " has_function_privilege(%s, p.oid, 'execute') and"
            " has_schema_privilege(%s, n.oid, 'usage')"
            " from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname = any (%s)",
            (login, login, list(SCHEMAS)),
        ).fetchall():
            # Without the schema a right to execute is of no use but to a view of ours.
            should = may_call(role, schema, name) and schema != "penstock_data"
            self._note(f"execute {signature}", role, has=has, should=should)
        for schema, name, signature in db.execute(
            "select n.nspname, p.proname, p.oid::regprocedure::text from pg_proc p"
            " join pg_namespace n on n.oid = p.pronamespace where n.nspname = any (%s)"
            " and has_function_privilege(%s, p.oid, 'execute')",
            (list(SCHEMAS), login),
        ).fetchall():
            self._note(f"granted {signature}", role, has=True, should=may_call(role, schema, name))

    def _tables(self, db: Session, role: str, login: str) -> None:
        for schema, name, privilege, has in db.execute(
            "select n.nspname, c.relname, k, has_table_privilege(%s, c.oid, k)"
            " from pg_class c join pg_namespace n on n.oid = c.relnamespace,"
            " unnest(%s::text[]) k"
            " where n.nspname = any (%s) and c.relkind in ('r', 'p', 'v', 'm')",
            (login, list(_PRIVILEGES), list(SCHEMAS)),
        ).fetchall():
            should = may_touch(role, schema, name, privilege)
            self._note(f"{privilege} {schema}.{name}", role, has=has, should=should)
        for name, has in db.execute(
            "select c.oid::regclass::text, has_sequence_privilege(%s, c.oid, 'usage,update,select')"
            " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
            " where n.nspname = any (%s) and c.relkind = 'S'",
            (login, list(SCHEMAS)),
        ).fetchall():
            self._note(f"sequence {name}", role, has=has, should=False)

    def _schemas(self, db: Session, role: str, login: str) -> None:
        for schema in SCHEMAS:
            row = db.execute("select has_schema_privilege(%s, %s, 'create')", (login, schema))
            found = row.fetchone()
            assert found is not None
            self._note(f"create in {schema}", role, has=found[0], should=False)

    def _calls(self, db: Session, session: Session, role: str) -> None:
        """Each function called for real, with nulls, and undone: what the server itself says."""
        for schema, name, signature, arguments in db.execute(
            "select n.nspname, p.proname, p.oid::regprocedure::text,"
            " array(select format_type(t, null) from unnest(p.proargtypes) t)"
            " from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname = any (%s) and p.prokind = 'f'"
            " and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)",
            (list(SCHEMAS),),
        ).fetchall():
            nulls = sql.SQL(", ").join(sql.SQL(f"null::{kind}") for kind in arguments)
            call = sql.SQL("select {}({})").format(sql.Identifier(schema, name), nulls)
            should = may_call(role, schema, name) and schema != "penstock_data"
            self._note(f"call {signature}", role, has=_reached(session, call), should=should)

    def _actions(self, session: Session, role: str) -> None:
        for action in sorted(EVERYTHING):
            for call in ("pgqs.invoke(%s, %s)", "pgqs.invoke_many(%s, array[%s::jsonb])"):
                statement = sql.SQL(f"select {call}")
                has = _reached(session, statement, (action, Jsonb({"QueueUrl": "q"})))
                self._note(f"{action} by {call}", role, has=has, should=action in _ACTIONS[role])

    def _attributes(self, db: Session) -> None:
        for name, has in db.execute(
            "select rolname, rolsuper or rolcreaterole or rolcreatedb or rolcanlogin"
            " or rolreplication or rolbypassrls from pg_roles where rolname = any (%s)",
            ([PREFIX + role for role in ROLES],),
        ).fetchall():
            self._note("an attribute of its own", name, has=has, should=False)
        found = db.execute(
            "select m.member::regrole::text from pg_auth_members m where m.member = any"
            " (select oid from pg_roles where rolname = any (%s))",
            ([PREFIX + role for role in ROLES],),
        ).fetchall()
        self._note("membership", "roles", has=bool(found), should=False)


def _reached(session: Session, call: sql.Composable, values: tuple[Any, ...] = ()) -> bool:
    """Whether the call got past the question of rights; nothing of it stays."""
    try:
        session.execute("set local statement_timeout = '5s'")
        session.execute(call, values or None)
    except psycopg.errors.InsufficientPrivilege:
        return False
    except psycopg.Error as problem:
        return not (values and "may not perform" in str(problem))
    finally:
        session.rollback()
    return True
