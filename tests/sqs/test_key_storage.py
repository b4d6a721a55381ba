"""Access keys in files, and sealed secrets."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidSetting
from penstock.sqs.auth import key_storage
from penstock.sqs.auth.access_keys import AccessKey, Role
from penstock.sqs.auth.key_storage import Seal

if TYPE_CHECKING:
    from pathlib import Path

SEAL = Seal(bytes(32))


def test_a_sealed_secret_opens_only_for_its_own_key() -> None:
    sealed = SEAL.seal("AKIAONE", "s3cret")
    assert "s3cret" not in sealed
    assert SEAL.open("AKIAONE", sealed) == "s3cret"
    for seal, name in ((SEAL, "AKIATWO"), (Seal(b"1" * 32), "AKIAONE")):
        with pytest.raises(InvalidSetting):
            seal.open(name, sealed)
    with pytest.raises(InvalidSetting):
        SEAL.open("AKIAONE", sealed[:-4] + "AAA=")


def test_the_master_key_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    text = base64.b64encode(bytes(32)).decode()
    (tmp_path / "key").write_text(text + "\n", encoding="utf-8")
    sealed = SEAL.seal("A", "s")
    for environ in (
        {"PENSTOCK_SQS_MASTER_KEY": text},
        {"PENSTOCK_SQS_MASTER_KEY_FILE": str(tmp_path / "key")},
    ):
        found = Seal.load(environ)
        assert found is not None
        assert found.open("A", sealed) == "s"
    assert Seal.load({}) is None
    for wrong in ("x", "c2hvcnQ="):
        with pytest.raises(InvalidSetting):
            Seal.load({"PENSTOCK_SQS_MASTER_KEY": wrong})


@pytest.mark.parametrize("seal", [None, SEAL])
def test_a_key_survives_its_file(tmp_path: Path, seal: Seal | None) -> None:
    key = AccessKey("AKIA1", 's"e\\c', "123456789012", Role.CONSUMER, ("a-*", "b"), "bob")
    path = tmp_path / "keys.toml"
    path.touch(mode=0o600)
    path.write_text(key_storage.file_entry(key, seal), encoding="utf-8")
    assert key_storage.load_file(path, seal) == [key]
    assert key.secret not in repr(key)


def test_a_file_of_secrets_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(key_storage.file_entry(AccessKey("AKIA1", "s"), None), encoding="utf-8")
    path.chmod(0o644)
    with pytest.raises(InvalidSetting, match="chmod 600"):
        key_storage.load_file(path, None)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        '[[key]]\naccess_key = "A"\nsecret = "s"\nrole = "king"',
        '[[key]]\naccess_key = "A"\nsecret = "s"\naccount = "1"',
        '[[key]]\naccess_key = "A"\nsecret = "s"\ncolour = "red"',
        '[[key]]\naccess_key = "A"',
        '[[key]]\naccess_key = "A"\nsealed = "v1.x"',
        '[key]\naccess_key = "A"\nsecret = "s"',
        "key = 7",
        "key = " + "7" * 5000,
        "key = " + "[" * 5000,
        "key = [7]",
        '[[key]]\naccess_key = "A"\nsecret = 7',
        '[[key]]\naccess_key = "A"\nsecret = "s"\nqueues = 7',
        '[[key]]\naccess_key = "A"\nsecret = "s"\nqueues = [7]',
        # Not the list of its characters, the star among them.
        '[[key]]\naccess_key = "A"\nsecret = "s"\nqueues = "orders-*"',
    ],
)
def test_a_key_file_with_a_fault_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.toml"
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSetting):
        key_storage.load_file(path, None)
