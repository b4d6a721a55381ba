"""Clients for the database that Django uses."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from psycopg.conninfo import make_conninfo

import penstock
from penstock.integrations.django.configuration import configuration

_NAMES = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}


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
