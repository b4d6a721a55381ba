"""Every part of the programme, in the order in which `make prove` plays them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prove.parts import (
    attacks,
    big_numbers,
    clocks,
    connections,
    disk_full,
    horizon,
    interleavings,
    machines,
    mariadb,
    models,
    poison,
    power_cut,
    server_kill,
    soak,
    spark,
    standbys,
    upgrade,
    worker_death,
)

if TYPE_CHECKING:
    from prove.model import Part

_ORDER = (
    server_kill.PART,
    power_cut.PART,
    worker_death.PART,
    connections.PART,
    standbys.PART,
    horizon.PART,
    disk_full.PART,
    poison.PART,
    clocks.PART,
    big_numbers.PART,
    upgrade.PART,
    mariadb.PART,
    spark.PART,
    models.PART,
    interleavings.PART,
    machines.PART,
    *attacks.PARTS,
    soak.PART,
)

PARTS: dict[str, Part] = {part.name: part for part in _ORDER}
