"""A standalone Spark and a Connect server, from the pyspark package alone, on loopback."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyspark

from penstock.spark import java
from prove.processes import kill_family

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = Path(pyspark.__file__).parent
_START_SECONDS = 180


def environment() -> dict[str, str]:
    found = java.home()
    more = {"JAVA_HOME": str(found)} if found is not None else {}
    return {
        **os.environ,
        **more,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": os.environ.get("PENSTOCK_TEST_PYTHON", sys.executable),
    }


def without_the_package(folder: Path) -> Path:
    """A Python like this one, in which Penstock is not installed."""
    (folder / "sitecustomize.py").write_text(HIDING)
    script = folder / "python"
    script.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(folder))}:$PYTHONPATH\n"
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    script.chmod(0o700)
    return script


HIDING = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("penstock", "pyspark_penstock"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "penstock" else real(name, *more)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(folder: Path, name: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Spark's, killed with its children, which have sessions of their own."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            words, stdout=log, stderr=log, env=environment(), cwd=folder, start_new_session=True
        )
        try:
            yield process
        finally:
            kill_family(process)


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        assert process.poll() is None, "it ended by itself"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "it never listened"
        time.sleep(0.1)


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[str]:
    """A master and workers; the address to give as `master`."""
    run = str(HOME / "bin" / "spark-class")
    port = free_port()
    master = (run, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1")
    words = (*master, "--port", str(port), "--webui-port", str(free_port()))
    with started(folder, "master", *words) as process:
        await_port(port, process)
        address = f"spark://127.0.0.1:{port}"
        with _workers(folder, address, workers):
            yield address


@contextmanager
def _workers(folder: Path, address: str, number: int) -> Iterator[None]:
    if number == 0:
        yield
        return
    port = free_port()
    words = (
        str(HOME / "bin" / "spark-class"),
        "org.apache.spark.deploy.worker.Worker",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--webui-port",
        str(free_port()),
        "--cores",
        "1",
        "--memory",
        "1g",
        "--work-dir",
        str(folder / f"work{number}"),
        address,
    )
    with started(folder, f"worker{number}", *words) as process:
        await_port(port, process)
        with _workers(folder, address, number - 1):
            yield


@contextmanager
def connect_server(folder: Path, master: str = "local[2]") -> Iterator[str]:
    """A Spark Connect server; the address to give as `remote`."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    words = [str(HOME / "bin" / "spark-submit"), "--master", master]
    words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    with started(folder, "connect", *words) as process:
        await_port(port, process)
        yield f"sc://127.0.0.1:{port}"


def executors() -> list[psutil.Process]:
    """The executors of the clusters that this process has started."""
    return [
        each
        for each in psutil.Process().children(recursive=True)
        if "CoarseGrainedExecutorBackend" in " ".join(_words(each))
    ]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
