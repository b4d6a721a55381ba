"""What the Django setting `PENSTOCK` says, and clients for the database that Django uses."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from psycopg.conninfo import make_conninfo

import penstock

_NAMES = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}


@dataclass(frozen=True, slots=True)
class Configuration:
    """The dict `PENSTOCK` of the settings module; each field there is in capitals."""

    database: str = "default"
    """The alias in DATABASES where the engine is."""
    dsn: str | None = None
    """Where workers connect; without one, where the alias leads."""
    worker: str | None = None
    """The worker that `manage.py penstock_worker` runs: "shop.messages:worker"."""
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of `penstock.Settings` for the clients that workers use."""


def configuration() -> Configuration:
    """Read the setting; without one, everything has its default."""
    given: dict[str, Any] = getattr(settings, "PENSTOCK", {})
    known = {each.name.upper(): each.name for each in fields(Configuration)}
    unknown = given.keys() - known.keys()
    if unknown:
        raise ImproperlyConfigured(
            f"PENSTOCK has no {', '.join(sorted(unknown))}; it may have {', '.join(known)}"
        )
    return Configuration(**{known[name]: value for name, value in given.items()})


def dsn(database: str | None = None) -> str:
    """Where a database of DATABASES is, in the form that Penstock and psycopg read."""
    alias = database or configuration().database
    connection = connections[alias]
    if connection.vendor != "postgresql":
        raise ImproperlyConfigured(
            f"DATABASES[{alias!r}] is {connection.vendor}, and Penstock lives in PostgreSQL: "
            'name another with PENSTOCK = {"DATABASE": …}'
        )
    found = connection.settings_dict
    given = {ours: str(found[theirs]) for theirs, ours in _NAMES.items() if found.get(theirs)}
    return make_conninfo("", **given)


def client() -> penstock.Client:
    """A client for workers, with pools of its own; open it, or give it to a Worker."""
    chosen = configuration()
    return penstock.connect(chosen.dsn or dsn(chosen.database), **chosen.options)
