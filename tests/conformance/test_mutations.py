"""The planted mutations keep up with the engine; `make long-tests` shows that each is caught."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.mutations import MUTATIONS, missing

if TYPE_CHECKING:
    from tools.planted.mutation import Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_can_be_planted(mutation: Mutation) -> None:
    assert missing(mutation) is None, f"bring tools/mutations.py up to date: {missing(mutation)}"
