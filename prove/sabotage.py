"""One-line changes of the engine in one database, for twins that must be caught."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

FUNCTIONS = """
    select pg_get_functiondef(p.oid)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('penstock', 'penstock_data', 'pgqs', 'pgqs_data') and p.prokind = 'f'
      and strpos(p.prosrc, %s) > 0
"""

#: Claims on one queue go ahead together.
NO_TURNS = ("for no key update of l skip locked", "")

#: Claims take from a slice that another transaction takes from.
NO_SLICE_LOCK = ("limit 1 for update skip locked) c", "limit 1) c")

#: A claim that is about to be split or extended is not locked first.
NO_LOCK = (
    "order by c.first_id desc limit 1\n        for update;",
    "order by c.first_id desc limit 1;",
)

#: The token of whoever asks becomes that of whoever holds the message.
NO_TOKEN_CHECK = (
    "begin\n    while v_count > 0 loop",
    (
        "begin\n    p_token := coalesce((select c.token from penstock_data.claims c where "
        "c.queue_id = p_queue_id and c.message_ids && p_ids limit 1), p_token);\n"
        "    while v_count > 0 loop"
    ),
)

#: A FIFO queue lets whoever held a message delete it, as a standard queue does.
LATE_DELETES = (
    "if not p_queue.fifo then\n        perform penstock_data.finish_message",
    "if true then\n        perform penstock_data.finish_message",
)


def rewrite(db: psycopg.Connection[Any], old: str, new: str) -> None:
    """Replace a piece of text in every function that has it.

    The search is in the source that the server keeps, so a change of the engine that takes the text
    away is told, and does not make a twin that is not sabotaged.
    """
    found = [row[0] for row in db.execute(FUNCTIONS, (old,))]
    if not found:
        raise LookupError(f"no function has {old!r}: the sabotage has lost its place")
    for definition in found:
        db.execute(definition.replace(old, new).encode())
