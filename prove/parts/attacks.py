"""The attacks, in the order in which they are played."""

from __future__ import annotations

from prove.parts import (
    audit,
    bombs,
    idle_polls,
    names,
    parsers,
    rights,
    secrets,
    signatures,
    tenants,
    wire,
)

PARTS = (
    parsers.PART,
    wire.PART,
    signatures.PART,
    rights.PART,
    tenants.PART,
    names.PART,
    bombs.PART,
    idle_polls.PART,
    secrets.PART,
    audit.PART,
)
