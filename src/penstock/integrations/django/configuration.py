"""What the Django setting `PENSTOCK` says."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


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
