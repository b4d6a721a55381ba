"""What a database holds, so that two moments can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

CANARY = "canary-of-the-proof"
_CATALOGUE = """
    select 'class', n.nspname || '.' || c.relname, c.relkind::text || c.relacl::text
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname !~ '^pg_(toast|temp)'
    union all select 'function', p.oid::regprocedure::text, md5(p.prosrc) || p.proacl::text
    from pg_proc p where p.pronamespace <> 'pg_catalog'::regnamespace
    union all select 'schema', nspname, nspacl::text
    from pg_namespace where nspname !~ '^pg_(toast|temp)'
    union all select 'role', rolname, rolsuper::text || rolcanlogin::text from pg_roles
    union all select 'database', datname, null from pg_database
    union all select 'trigger', tgrelid::regclass::text || '.' || tgname, null from pg_trigger
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """Catalogue, names, and the canary's messages."""

    catalogue: frozenset[tuple[Any, ...]]
    topics: frozenset[str]
    queues: frozenset[str]
    canary: tuple[Any, ...]

    def difference(self, other: Picture) -> list[str]:
        """What is in one and not in the other."""
        found = [f"catalogue: {each}" for each in self.catalogue ^ other.catalogue]
        found += [f"topic {each!r}" for each in self.topics ^ other.topics]
        found += [f"queue {each!r}" for each in self.queues ^ other.queues]
        return found + ([] if self.canary == other.canary else [f"canary: {other.canary}"])


def plant(dsn: str) -> None:
    """Messages that must stay as they are."""
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("select penstock.create_queue(%s)", (CANARY,))
        db.execute(
            "select penstock.publish_messages(%s, array(select to_jsonb(n)"
            " from generate_series(1, 10) n))",
            (CANARY,),
        )


def taken(dsn: str) -> Picture:
    with psycopg.connect(dsn, autocommit=True) as db:
        return Picture(
            frozenset(db.execute(_CATALOGUE).fetchall()),
            _names(db, "topics"),
            _names(db, "queues"),
            tuple(
                db.execute(
                    "select id, payload::text, headers::text from penstock.messages"
                    " where topic_id = (select id from penstock.topics where name = %s)"
                    " order by id",
                    (CANARY,),
                ).fetchall()
            ),
        )


def _names(db: psycopg.Connection[Any], view: str) -> frozenset[str]:
    query = sql.SQL("select name from {}").format(sql.Identifier("penstock", view))
    return frozenset(name for (name,) in db.execute(query).fetchall())
