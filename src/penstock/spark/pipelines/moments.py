"""Moments that Spark hands to Python: without a zone, and meant in that of this process."""

from __future__ import annotations

from datetime import UTC, datetime


def utc(moment: datetime) -> datetime:
    """The same moment in UTC; one without a zone is in this process's own."""
    return moment.astimezone(UTC)
