"""What the tests of the SQS door in SQL share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    import psycopg


@pytest.fixture
def sqs(db: psycopg.Connection[Any]) -> Sqs:
    """The actions of SQS, performed as the engine's owner."""
    return Sqs(db)
