"""The embedded server with real processes: shared, stopped by the last, clear about trouble."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from penstock import embedded, errors
from penstock.embedded import account, installation, server_lock
from penstock.embedded import cluster as clusters
from penstock.embedded.folder import Folder
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_USER = """
import os, sys
from pathlib import Path
from penstock import embedded, errors
if len(sys.argv) > 2:
    os.setgroups([])
    os.setgid(int(sys.argv[3]))
    os.setuid(int(sys.argv[2]))
    os.chdir("/")
try:
    with embedded.server(Path(sys.argv[1])) as server:
        print(server.dsn, flush=True)
        sys.stdin.readline()
except errors.EmbeddedServerError as exc:
    print(type(exc).__name__, flush=True)
    print(exc, flush=True)
"""


class User:
    """A process that uses the embedded server until it is told to leave."""

    def __init__(self, folder: Path, lent: account.Account | None = None) -> None:
        # It drops its rights by itself, because the interpreter may be in root's home.
        who = [str(lent.uid), str(lent.gid)] if lent else []
        self.process = subprocess.Popen(
            [sys.executable, "-c", _USER, str(folder), *who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def joined(self) -> str:
        """Wait until it uses the server; the server's DSN."""
        return self.line()

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate("\n", timeout=90)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A data folder that every account can reach, as pytest's own can't be by a lent one."""
    root = Path(tempfile.mkdtemp(prefix="penstock-"))
    root.chmod(0o755)
    yield root / "data"
    _end_server_in(root)
    shutil.rmtree(root)


@pytest.fixture
def user(folder: Path) -> Iterator[Callable[..., User]]:
    """A factory of processes that use the server."""
    started: list[User] = []

    def start(at: Path = folder, lent: account.Account | None = None) -> User:
        started.append(User(at, lent))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.kill()


def _end_server_in(root: Path) -> None:
    for cluster in root.rglob("postgres"):
        pid = clusters.postmaster_pid(cluster) if cluster.is_dir() else None
        if pid is not None and clusters.is_alive(pid, cluster):
            server = psutil.Process(pid)
            server.send_signal(signal.SIGQUIT)
            server.wait(timeout=30)


def server_pid(folder: Path) -> int | None:
    """The pid of the running server of a folder."""
    pid = clusters.postmaster_pid(folder / "postgres")
    return pid if pid and clusters.is_alive(pid, folder / "postgres") else None


def stored(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("select count(*) from kept").fetchone()
    assert row is not None
    return int(row[0])


def store(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("create table if not exists kept (id int)")
        conn.execute("insert into kept values (1)")


def test_data_stays_from_one_run_to_the_next(folder: Path) -> None:
    with embedded.server(folder) as server:
        store(server.dsn)
    assert server_pid(folder) is None
    with embedded.server(folder) as server:
        assert stored(server.dsn) == 1


def test_server_is_durable_and_closed_to_the_network(folder: Path) -> None:
    with embedded.server(folder) as server, psycopg.connect(server.dsn) as conn:
        for name, value in (
            ("fsync", "on"),
            ("synchronous_commit", "on"),
            ("listen_addresses", ""),
        ):
            assert conn.execute("select current_setting(%s)", (name,)).fetchone() == (value,)
        assert (folder / "run").stat().st_mode & 0o077 == 0
        assert (folder / "postgres").stat().st_mode & 0o077 == 0


def test_two_processes_share_and_the_last_one_stops_it(
    folder: Path, user: Callable[..., User]
) -> None:
    first, second = user(), user()
    assert first.joined() == second.joined()
    pid = server_pid(folder)
    first.leave()
    assert server_pid(folder) == pid is not None
    second.leave()
    assert server_pid(folder) is None


def test_nested_use_in_one_process_is_counted(folder: Path) -> None:
    with embedded.server(folder) as outer:
        with embedded.server(folder) as inner:
            assert inner.dsn == outer.dsn
        store(outer.dsn)
    assert server_pid(folder) is None


def test_forked_child_leaves_the_server_to_its_parent(folder: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from penstock import embedded; import psycopg\n"
        "with embedded.server(Path(sys.argv[1])) as server:\n"
        "    child = os.fork()\n"
        "    if child:\n"
        "        os.waitpid(child, 0)\n"
        "        psycopg.connect(server.dsn).close()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True, timeout=60)
    assert server_pid(folder) is None


def test_killed_process_is_not_waited_for(folder: Path, user: Callable[..., User]) -> None:
    killed, leaving = user(), user()
    killed.joined()
    leaving.joined()
    killed.kill()
    leaving.leave()
    assert server_pid(folder) is None


def test_server_left_by_a_killed_process_is_taken_over(
    folder: Path, user: Callable[..., User]
) -> None:
    only = user()
    store(only.joined())
    only.kill()
    pid = server_pid(folder)
    assert pid is not None
    with embedded.server(folder) as server:
        assert server_pid(folder) == pid
        assert stored(server.dsn) == 1
    assert server_pid(folder) is None


def test_many_processes_start_at_the_same_moment(folder: Path, user: Callable[..., User]) -> None:
    users = [user() for _ in range(6)]
    assert len({each.joined() for each in users}) == 1
    for each in users:
        each.process.stdin.write("\n")  # type: ignore[union-attr]
        each.process.stdin.flush()  # type: ignore[union-attr]
    for each in users:
        each.process.communicate(timeout=90)
        assert each.process.returncode == 0
    assert server_pid(folder) is None


def test_coming_and_going_at_once_never_meets_a_stopped_server(
    folder: Path, user: Callable[..., User]
) -> None:
    for _ in range(5):
        leaving = user()
        leaving.joined()
        coming = user()
        leaving.leave()
        store(coming.joined())
        coming.leave()
    assert server_pid(folder) is None


def test_crashed_server_is_recovered(folder: Path, user: Callable[..., User]) -> None:
    only = user()
    store(only.joined())
    pid = server_pid(folder)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    psutil.Process(pid).wait(timeout=30) if psutil.pid_exists(pid) else None
    with embedded.server(folder) as server:
        assert stored(server.dsn) == 1
        only.leave()
        assert stored(server.dsn) == 1


def test_stale_pid_file_of_a_reused_pid_is_no_obstacle(folder: Path) -> None:
    with embedded.server(folder):
        pass
    stranger = os.getpid()
    lines = [stranger, folder / "postgres", int(time.time()), 5432, folder / "run", "", "", "ready"]
    text = "\n".join(str(line) for line in lines) + "\n"
    owner = (folder / "postgres").stat()
    for path in (folder / "postgres" / "postmaster.pid", folder / "run" / ".s.PGSQL.5432.lock"):
        path.write_text(text, encoding="utf-8")
        os.chown(path, owner.st_uid, owner.st_gid)
    with embedded.server(folder) as server:
        store(server.dsn)


def test_interrupted_creation_is_begun_again(folder: Path) -> None:
    (folder / "postgres.new" / "base").mkdir(parents=True)
    with embedded.server(folder) as server:
        store(server.dsn)
    assert not (folder / "postgres.new").exists()


def test_variables_of_other_servers_do_not_mislead_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGHOST", "nowhere.invalid")
    with embedded.server(folder) as server:
        store(server.dsn)


def test_folder_comes_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA_DIR", str(folder))
    with embedded.server() as server:
        assert server.folder == folder


def test_path_with_spaces_and_signs_works(folder: Path) -> None:
    with embedded.server(folder / "a b & c'd%20é") as server:
        store(server.dsn)


def test_long_path_gets_its_socket_elsewhere(folder: Path) -> None:
    deep = folder / ("x" * 120)
    with embedded.server(deep) as server:
        store(server.dsn)
        place = clusters.read_postmaster(deep / "postgres")
        assert place is not None
        assert place.socket_dir.stat().st_mode & 0o077 == 0
    place.socket_dir.rmdir()


def test_no_short_path_at_all_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded.cluster, "LONGEST_SOCKET_PATH", 10)
    with (
        pytest.raises(errors.SocketPathTooLong, match="PENSTOCK_DATA_DIR"),
        embedded.server(folder),
    ):
        pass


def test_strangers_socket_folder_is_not_used(folder: Path) -> None:
    with embedded.server(folder):
        pass
    (folder / "run").rmdir()
    (folder / "run").symlink_to(folder)
    with pytest.raises(errors.FolderBusy, match="in the way"), embedded.server(folder):
        pass


def _fresh(folder: Path) -> Path:
    with embedded.server(folder):
        pass
    return folder / "postgres"


def _expect(kind: type[errors.EmbeddedServerError], folder: Path, *words: str) -> None:
    with pytest.raises(kind) as caught, embedded.server(folder):
        pass
    assert caught.value.folder == folder
    for word in (str(folder), *words):
        assert word in str(caught.value)


def test_folder_of_another_version_is_told(folder: Path) -> None:
    (_fresh(folder) / "PG_VERSION").write_text("15\n", encoding="ascii")
    _expect(errors.FolderOfOtherVersion, folder, "PostgreSQL 15", "PostgreSQL 18", "pg_dumpall")


@pytest.mark.parametrize("name", ["PG_VERSION", "global/pg_control", "postgresql.conf"])
def test_missing_file_means_damaged(folder: Path, name: str) -> None:
    (_fresh(folder) / name).unlink()
    _expect(errors.FolderDamaged, folder, name, "backup")


@pytest.mark.parametrize("content", [b"", b"eighteen\n", b"\xff\xfe"])
def test_unreadable_version_means_damaged(folder: Path, content: bytes) -> None:
    (_fresh(folder) / "PG_VERSION").write_bytes(content)
    _expect(errors.FolderDamaged, folder, "PG_VERSION")


def test_overwritten_control_file_means_damaged(folder: Path) -> None:
    control = _fresh(folder) / "global" / "pg_control"
    control.write_bytes(b"\x07" * control.stat().st_size)
    _expect(errors.FolderDamaged, folder, "backup")


def test_lost_log_files_mean_damaged(folder: Path) -> None:
    for path in (_fresh(folder) / "pg_wal").glob("0*"):
        path.unlink()
    _expect(errors.FolderDamaged, folder, "checkpoint")


def test_damage_can_be_answered_by_deleting_the_cluster(folder: Path) -> None:
    (_fresh(folder) / "global" / "pg_control").unlink()
    shutil.rmtree(folder / "postgres")
    with embedded.server(folder) as server:
        store(server.dsn)


def test_file_in_place_of_the_folder_is_told(folder: Path) -> None:
    folder.write_text("", encoding="ascii")
    _expect(errors.FolderForbidden, folder, "PENSTOCK_DATA_DIR")


def test_data_directory_of_another_server_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / "PG_VERSION").write_text("18\n", encoding="ascii")
    _expect(errors.FolderForbidden, folder, "PENSTOCK_DSN")
    assert [path.name for path in folder.iterdir()] == ["PG_VERSION"]


def _unprivileged() -> account.Account | None:
    """An account other than root; None when we have one already."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    lent = account.Account(nobody.pw_uid, nobody.pw_gid, lent=True)
    if account.first_closed(installation.packaged().bin.resolve(), lent) is not None:
        pytest.skip("the wheel's programs are closed to other accounts")
    return lent


def test_read_only_folder_is_told(folder: Path, user: Callable[..., User]) -> None:
    folder.mkdir(mode=0o555)
    refused = user(lent=_unprivileged())
    assert refused.line() == "FolderForbidden"
    assert "may not write" in refused.line()


def test_folder_that_can_not_be_made_is_told(folder: Path, user: Callable[..., User]) -> None:
    folder.mkdir(mode=0o555)
    assert user(folder / "deeper", _unprivileged()).line() == "FolderForbidden"


def test_ordinary_user_has_a_server_of_their_own(folder: Path, user: Callable[..., User]) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    lent = _unprivileged()
    only = user(lent=lent)
    assert only.joined().startswith("postgresql://")
    assert (folder / "postgres").stat().st_uid == (lent.uid if lent else os.geteuid())
    only.leave()


def test_folder_of_another_user_is_told(folder: Path, user: Callable[..., User]) -> None:
    _fresh(folder)
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    assert user(lent=_unprivileged()).line() == "FolderForbidden"


def test_cluster_open_to_others_is_told(folder: Path) -> None:
    _fresh(folder).chmod(0o777)
    _expect(errors.FolderForbidden, folder, "chmod 0700")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root lends an account")
def test_root_is_told_which_folder_is_closed(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    _expect(errors.FolderForbidden, folder, "may not enter", "chmod")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root lends an account")
def test_programs_out_of_reach_are_copied(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = installation.packaged()
    closed = folder.parent / "closed"
    closed.mkdir(mode=0o700)
    site = packaged.bin.parents[2]
    for source in installation._parts(packaged.bin.parents[1]):
        shutil.copytree(source, closed / source.relative_to(site), symlinks=True)
    hidden = installation.Binaries(closed / packaged.bin.relative_to(site), packaged.major)
    monkeypatch.setattr(installation, "packaged", lambda: hidden)
    with embedded.server(folder) as server:
        store(server.dsn)
    assert len(list(folder.glob("programs-*/*/pginstall18/bin/postgres"))) == 1


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 200 MB."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200m,mode=755", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small file system here: {done.stderr.strip()}")
    yield folder
    _end_server_in(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb") as out:
        try:
            while True:
                out.write(b"\x01" * 65536)
                out.flush()
        except OSError:
            pass
    return filler


def test_full_disk_is_told_before_anything_is_made(small_disk: Path) -> None:
    _fill(small_disk)
    _expect(errors.FolderFull, small_disk, "Make room")


def test_full_disk_is_told_when_starting_and_nothing_is_lost(small_disk: Path) -> None:
    with embedded.server(small_disk) as server:
        store(server.dsn)
    filler = _fill(small_disk)
    _expect(errors.FolderFull, small_disk, "Make room")
    filler.unlink()
    with embedded.server(small_disk) as server:
        assert stored(server.dsn) == 1


def test_disk_that_fills_during_creation_is_told(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded.cluster, "_ROOM_FOR_CLUSTER", 0)
    filler = _fill(small_disk)
    with filler.open("r+b") as out:
        out.truncate(filler.stat().st_size - 8 * 1024 * 1024)
    _expect(errors.FolderFull, small_disk, "Make room")
    assert not (small_disk / "postgres").exists()


def test_lock_that_is_never_released_is_told(folder: Path) -> None:
    folder.mkdir()
    place = Folder(folder)
    with server_lock._alone(place, timedelta(seconds=1)):
        impatient = Settings(start_timeout=timedelta(milliseconds=50))
        with (
            pytest.raises(errors.FolderBusy, match=str(os.getpid())),
            embedded.server(folder, settings=impatient),
        ):
            pass


def test_server_that_hangs_is_told(folder: Path, user: Callable[..., User]) -> None:
    only = user()
    only.joined()
    pid = server_pid(folder)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        impatient = Settings(start_timeout=timedelta(milliseconds=100))
        with (
            pytest.raises(errors.EmbeddedServerStuck, match="does not answer"),
            embedded.server(folder, settings=impatient),
        ):
            pass
    finally:
        os.kill(pid, signal.SIGCONT)
    only.leave()


def test_missing_wheel_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_WHEEL", "no_such_package")
    with pytest.raises(errors.EmbeddedServerMissing, match="PENSTOCK_DSN"), embedded.server(folder):
        pass


def test_wheel_of_another_version_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_INSTALLATION", "pginstall99")
    with (
        pytest.raises(errors.EmbeddedServerMissing, match="no PostgreSQL"),
        embedded.server(folder),
    ):
        pass
