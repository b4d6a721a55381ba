"""Which Java Spark gets."""

from __future__ import annotations

import subprocess
import tempfile
from typing import TYPE_CHECKING

import pytest

from penstock.spark import java

if TYPE_CHECKING:
    from pathlib import Path


def pretend(folder: Path, version: str) -> Path:
    """A program that says it is this Java."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_goes_first(tmp_path: Path) -> None:
    pretend(tmp_path / "given", "17.0.1")
    found = java.home({"JAVA_HOME": str(tmp_path / "given"), "PATH": ""})
    assert found == tmp_path / "given"


def test_java_on_the_path_serves_when_it_is_new_enough(tmp_path: Path) -> None:
    program = pretend(tmp_path / "new", "17.0.15")
    assert java.home({"PATH": str(program.parent)}) is None


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_old_java_gives_way_to_the_wheels(tmp_path: Path, version: str) -> None:
    program = pretend(tmp_path / "old", version)
    found = java.home({"PATH": str(program.parent)})
    assert found is not None
    assert (found / "bin" / "java").exists()


def test_wheels_java_runs_without_the_module_it_has_not(tmp_path: Path) -> None:
    home = java.home({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "nowhere")})
    assert home is not None
    words = ["--add-modules=jdk.incubator.vector", "-Dsaid=a b", "-version"]
    done = subprocess.run(
        [home / "bin" / "java", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (java.version(home / "bin" / "java") or 0) >= java.LEAST


def test_without_the_wheel_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _name: None)
    with pytest.raises(java.JavaMissing, match=r"penstock-mq\[spark\]"):
        java.home({"PATH": str(tmp_path)})


def test_links_into_an_environment_that_is_gone_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = java.packaged()
    links = [each for each in folder.iterdir() if each.is_symlink()]
    assert links
    for link in links:
        link.unlink()
        link.symlink_to(tmp_path / "gone" / link.name)
    assert java.packaged() == folder
    assert all(link.exists() for link in links)
    assert {each.name for each in folder.iterdir()} == {"bin", *(link.name for link in links)}
