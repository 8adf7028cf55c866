"""Everything in one encrypted file, and a machine that has nothing but that file and the recovery key."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from api_support import Api
from api_support import api_fixture as api_fixture
from pydantic import SecretStr
from test_backup import contents, known_backup_at

from moorage.entrypoints.full_backup import (
    RecoveryKey,
    back_up_everything,
    is_full_backup,
    new_recovery_key,
    restore_everything,
)
from moorage.kit.crypto import load_or_create_keyring
from moorage.kit.errors import SettingsError, SetupError
from moorage.kit.settings import Settings

OPERATOR_KEY = "moor_operator_of_this_test"


@pytest.fixture(autouse=True)
def nothing_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("MOORAGE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@dataclass(frozen=True)
class Machine:
    """One that has a backup, and one that has nothing."""

    settings: Settings
    new: Settings
    key: RecoveryKey
    key_file: Path


@pytest_asyncio.fixture
async def machine(
    api: Api, postgres_dsn: str, short_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Machine]:
    await api.new_person("ada@example.com")
    key = new_recovery_key()
    key_file = tmp_path / "recovery-key"
    key_file.write_text(key.text)
    old_home, new_home = short_folder / "old", short_folder / "new"
    for home in (old_home, new_home):
        home.mkdir()
    load_or_create_keyring(old_home / "secret-keys")
    (old_home / "operator-key").write_text(OPERATOR_KEY)
    (old_home / "moorage.toml").write_text('support_contact = "ada"\n')
    monkeypatch.setenv("MOORAGE_HOME", str(old_home))
    settings = Settings(
        home=old_home,
        database_dsn=SecretStr(api.database.dsn),
        backup_recipient=key.recipient,
        backup_kept_days=1,
    )
    admin = await asyncpg.connect(postgres_dsn.replace("/moorage?", "/postgres?"))
    await admin.execute("CREATE DATABASE everything")
    empty = SecretStr(postgres_dsn.replace("/moorage?", "/everything?"))
    try:
        yield Machine(settings, Settings(home=new_home, database_dsn=empty), key, key_file)
    finally:
        await admin.execute("DROP DATABASE everything WITH (FORCE)")
        await admin.close()


def dsn_of(settings: Settings) -> str:
    assert settings.database_dsn is not None
    return settings.database_dsn.get_secret_value()


def secrets_of(settings: Settings) -> list[str]:
    return [(settings.home / name).read_text() for name in ("secret-keys", "operator-key", "moorage.toml")]


async def test_a_new_machine_becomes_the_old_one(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = machine.settings, machine.new
    file, gone = await back_up_everything(old)
    assert (file.parent, gone) == (old.home / "backups", [])
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert is_full_backup(file)
    content = file.read_bytes()
    readable = [words for words in (b"PGDMP", b"secret-keys", OPERATOR_KEY.encode()) if words in content]
    assert readable == [], "nobody reads it without the key"
    assert await known_backup_at(old) is not None
    assert sorted(path.name for path in old.home.iterdir() if "unfinished" in path.name) == []

    monkeypatch.setenv("MOORAGE_HOME", str(new.home))
    put_back = await restore_everything(new, file, machine.key_file)
    assert [path.name for path in put_back] == ["secret-keys", "operator-key", "moorage.toml"]
    assert secrets_of(new) == secrets_of(old)
    assert (new.home / "secret-keys").stat().st_mode & 0o777 == 0o600
    rows, before = await contents(dsn_of(new)), await contents(dsn_of(old))
    # When it was backed up is written after it was.
    before.pop("installation"), rows.pop("installation")
    assert rows == before
    with pytest.raises(SetupError, match="database is not empty"):
        await restore_everything(new, file, machine.key_file)


async def test_what_cannot_be_read_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    file, _ = await back_up_everything(machine.settings)
    other_key = tmp_path / "other-key"
    other_key.write_text(new_recovery_key().text)
    whole = file.read_bytes()
    damaged = {
        "cut": whole[: len(whole) // 2],
        "without its last byte": whole[:-1],
        "changed": whole[:-300] + bytes([whole[-300] ^ 1]) + whole[-299:],
    }
    attempts = {file: other_key}
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        attempts[tmp_path / name] = machine.key_file
    for attempt, key in attempts.items():
        with pytest.raises(SetupError, match="Nothing was changed"):
            await restore_everything(machine.new, attempt, key)
    assert not (machine.new.home / "secret-keys").exists()
    assert await contents(dsn_of(machine.new), {}) == {}
    (tmp_path / "empty").write_text("# nothing\n")
    with pytest.raises(SettingsError, match="is not a recovery key"):
        await restore_everything(machine.new, file, tmp_path / "empty")


async def test_keys_of_another_installation_are_not_replaced(machine: Machine) -> None:
    file, _ = await back_up_everything(machine.settings)
    load_or_create_keyring(machine.new.home / "secret-keys")
    before = (machine.new.home / "secret-keys").read_text()
    with pytest.raises(SetupError, match="belongs to another installation"):
        await restore_everything(machine.new, file, machine.key_file)
    assert (machine.new.home / "secret-keys").read_text() == before


async def test_old_ones_go_when_the_new_one_is_there(machine: Machine) -> None:
    folder = machine.settings.home / "backups"
    folder.mkdir()
    old = [folder / f"moorage-2020010{day}T020000Z.tar.age" for day in range(1, 6)]
    # The last of one that was killed.
    for file in (*old, folder / ".moorage-20200106T020000Z.tar.age.new"):
        file.touch()
    written, gone = await back_up_everything(machine.settings)
    assert gone == old[:3]
    assert sorted(folder.iterdir()) == [*old[3:], written]


async def test_a_backup_that_fails_leaves_no_file_and_takes_none(machine: Machine) -> None:
    settings = machine.settings.model_copy(
        update={"database_dsn": SecretStr(f"{dsn_of(machine.new)}x".replace("/everything?", "/nowhere?"))}
    )
    folder = settings.home / "backups"
    folder.mkdir()
    old = [folder / f"moorage-2020010{day}T020000Z.tar.age" for day in range(1, 6)]
    for file in old:
        file.touch()
    with pytest.raises(SetupError):
        await back_up_everything(settings)
    assert sorted(folder.iterdir()) == old
    assert not (settings.home / "backup.unfinished").exists()


async def test_without_a_recovery_key_it_says_how_to_get_one(machine: Machine) -> None:
    with pytest.raises(SettingsError, match="`moor install` creates one"):
        await back_up_everything(machine.settings.model_copy(update={"backup_recipient": None}))
    # An encrypted file whose keys were forgotten would be a hope.
    (machine.settings.home / "secret-keys").unlink()
    with pytest.raises(SetupError, match="without it nobody could read a backup's secrets"):
        await back_up_everything(machine.settings)
