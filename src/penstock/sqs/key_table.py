"""Access keys in the database, sealed (see sealing.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.calls import Call
from penstock.sqs.key_file import opened, role
from penstock.sqs.keys import AccessKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.sqs.sealing import Seal


def put(key: AccessKey, seal: Seal) -> Call[None]:
    """Add a key, or replace the one of the same id."""
    return Call(
        "select pgqs.put_access_key(%s, %s, %s, %s, %s, %s)",
        (
            key.access_key,
            seal.seal(key.access_key, key.secret),
            key.account,
            key.role.value,
            list(key.queues),
            key.name,
        ),
        lambda _rows: None,
    )


def delete(access_key: str) -> Call[bool]:
    """Forget a key; false: there was none."""
    return Call("select pgqs.delete_access_key(%s)", (access_key,), lambda rows: bool(rows[0][0]))


def rows() -> Call[Sequence[Sequence[Any]]]:
    """Every key as it lies there: id, sealed secret, account, role, queues, name."""
    return Call(
        "select access_key, sealed_secret, account, role, queues, name"
        " from pgqs.list_access_keys()",
        (),
        lambda found: found,
    )


def open_rows(found: Sequence[Sequence[Any]], seal: Seal | None) -> list[AccessKey]:
    """The keys, their secrets opened."""
    return [
        AccessKey(
            access_key=access_key,
            secret=opened(access_key, None, sealed, seal),
            account=account,
            role=role(word),
            queues=tuple(queues or ()),
            name=name or "",
        )
        for access_key, sealed, account, word, queues, name in found
    ]
