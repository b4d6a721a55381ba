"""Calls about the installation as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.facts import StepDone
from penstock.client.values import many, maybe, nothing, one
from penstock.models import HealthCheck
from penstock.postgres.call import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.postgres.call import Row


def maintenance_steps() -> Call[list[str]]:
    return Call("select step from penstock.maintenance_steps()", (), many(lambda row: row[0]))


def maintain_step(step: str) -> Call[StepDone | None]:
    """A piece of a step, in a transaction of its own; None: another session does it now."""
    return Call(
        "select affected, more, error from penstock.maintain_step(%s)",
        (step,),
        maybe(lambda row: StepDone(*row)),
        lasting=True,
    )


def health() -> Call[list[HealthCheck]]:
    return Call(
        "select name, ok, detail, advice from penstock.health()",
        (),
        many(_health_check),
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


def _health_check(row: Row) -> HealthCheck:
    return HealthCheck(*row)
