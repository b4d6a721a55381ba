"""Calls about the installation as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client import rows
from penstock.client.calls.call import Call
from penstock.client.rows import many, nothing, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client.rows import Row
    from penstock.models import HealthCheck, MaintenanceStep


def maintain() -> Call[list[MaintenanceStep]]:
    return Call(
        "select step, affected from penstock.maintain()",
        (),
        many(rows.maintenance_step),
        lasting=True,
    )


def health() -> Call[list[HealthCheck]]:
    return Call(
        "select name, ok, detail, advice from penstock.health()",
        (),
        many(rows.health_check),
        lasting=True,
    )


def schema_version() -> Call[int]:
    return Call("select penstock.schema_version()", (), one(int))


def configure(setting: str, value: str | None) -> Call[None]:
    """None puts the setting back to its default."""
    return Call("select penstock.configure(%s, %s)", (setting, value), nothing)


def configuration() -> Call[dict[str, str | None]]:
    return Call("select setting, value from penstock.configuration()", (), _named)


def _named(found: Sequence[Row]) -> dict[str, str | None]:
    return {name: value for name, value in found}  # noqa: C416 - rows are no pairs to mypy
