"""The lowest versions that pyproject.toml allows, as pip reads them."""

from __future__ import annotations

import tomllib

import pytest

from tests.docs.pages import ROOT
from tools.lowest_versions import LEFT_OUT, pins

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_a_requirement_becomes_its_lower_bound() -> None:
    project = {
        "dependencies": ["one[fast]>=1.2,<2", "three>=3; sys_platform == 'linux'"],
        "optional-dependencies": {"more": ["two>=0.5"], "dev": ["tool>=1"]},
    }
    assert list(pins(project)) == ["one==1.2", "three==3; sys_platform == 'linux'", "two==0.5"]


@pytest.mark.parametrize("requirement", ["bare", "exact==1.0", "under<2"])
def test_a_requirement_without_a_lower_bound_is_refused(requirement: str) -> None:
    with pytest.raises(ValueError, match="lower bound"):
        list(pins({"dependencies": [requirement], "optional-dependencies": {}}))


def test_every_dependency_has_one_lower_bound() -> None:
    extras = [name for name in PROJECT["optional-dependencies"] if name not in {"dev", "prove"}]
    names = [pin.partition("==")[0] for pin in pins(PROJECT, extras)]
    assert len(names) == len(set(names))
    assert set(LEFT_OUT) <= set(PROJECT["optional-dependencies"])


def test_no_extra_and_no_dependency_is_named_that_is_not_declared() -> None:
    own = [each for each in PROJECT["optional-dependencies"]["dev"] if "penstock" in each]
    assert own == ["penstock-mq[embedded]"]
