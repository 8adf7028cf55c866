"""Steps of `moor install`, done in a folder; and what is looked up before."""

import asyncio
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from moorage.entrypoints.service.facts import _open_to_others
from moorage.entrypoints.service.plan import (
    Link,
    MakeFolder,
    MakeSettings,
    Move,
    Remove,
    RemoveData,
    Step,
    WriteFile,
)
from moorage.entrypoints.service.steps import do
from moorage.kit.errors import SetupError
from moorage.kit.settings import Settings


async def done(step: Step, home: Path) -> None:
    await do(step, Settings(home=home), print)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_folders_and_files_have_their_permissions(tmp_path: Path) -> None:
    folder, file = tmp_path / "a/b", tmp_path / "a/b/unit"
    await done(MakeFolder("", folder, 0o700), tmp_path)
    folder.chmod(0o755)
    await done(MakeFolder("", folder, 0o700), tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    for text in ("one", "two"):
        await done(WriteFile("", file, text, 0o644), tmp_path)
        assert (file.read_text(), file.stat().st_mode & 0o777) == (text, 0o644)
    assert names(folder) == ["unit"]


async def test_settings_and_recovery_key_belong_together(tmp_path: Path) -> None:
    settings, key = tmp_path / "moorage.toml", tmp_path / "recovery-key"
    await done(MakeSettings("", settings, key), tmp_path)
    chosen = tomllib.loads(settings.read_text())
    assert chosen["backup_recipient"] in key.read_text()
    assert "AGE-SECRET-KEY-" in key.read_text()
    assert "AGE-SECRET-KEY-" not in settings.read_text()
    assert {path.stat().st_mode & 0o777 for path in (settings, key)} == {0o600}
    # A key that backups may be encrypted for is never replaced.
    before = key.read_text()
    settings.unlink()
    with pytest.raises(SetupError, match="backups may be encrypted for that key"):
        await done(MakeSettings("", settings, key), tmp_path)
    assert (key.read_text(), settings.exists()) == (before, False)


async def test_a_link_is_exchanged_and_a_file_is_not(tmp_path: Path) -> None:
    link = tmp_path / "current"
    for version in ("1", "2"):
        await done(Link("", link, Path(version)), tmp_path)
        assert link.readlink() == Path(version)
    assert names(tmp_path) == ["current"]
    await done(Remove("", link), tmp_path)
    link.write_text("mine")
    with pytest.raises(SetupError, match="should be a link to"):
        await done(Link("", link, Path("3")), tmp_path)
    await done(Move("", link, tmp_path / "moved"), tmp_path)
    assert (tmp_path / "moved").read_text() == "mine"
    await done(Remove("", tmp_path / "nothing"), tmp_path)


def test_others_who_may_write_are_found(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    programs = environment / "bin"
    programs.mkdir(parents=True, mode=0o755)
    for path in (environment, programs):
        path.chmod(0o755)
    own = [path for path in _open_to_others(environment) if path.is_relative_to(environment)]
    assert own == ([] if os.geteuid() == 0 else [environment, programs])
    programs.chmod(0o777)
    assert programs in _open_to_others(environment)


def test_somebodys_own_python_is_found(tmp_path: Path) -> None:
    """It runs the service, wherever the environment is that it made."""
    programs, own = tmp_path / "environment/bin", tmp_path / "somebody/bin"
    for folder in (programs, own):
        folder.mkdir(parents=True, mode=0o755)
    python = own / "python3"
    python.touch(0o755)
    (programs / "python3").symlink_to(python)
    before = _open_to_others(programs.parent)
    assert os.geteuid() or not before
    for path in (python, own, own.parent):
        mode = path.stat().st_mode
        path.chmod(0o777)
        assert path in _open_to_others(programs.parent)
        path.chmod(mode)


async def test_data_is_removed_wherever_it_is(tmp_path: Path) -> None:
    elsewhere = tmp_path / "disk/moorage"
    (elsewhere / "postgres").mkdir(parents=True)
    (elsewhere / "secret-keys").touch()
    home = tmp_path / "home"
    home.symlink_to(elsewhere)
    await done(RemoveData("", home), tmp_path)
    assert names(tmp_path) == ["disk"]
    assert names(tmp_path / "disk") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_a_disk_for_the_data_stays_empty(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "data", str(home)], check=True)
    try:
        (home / "secret-keys").touch()
        asyncio.run(done(RemoveData("", home), tmp_path))
        assert names(home) == []
    finally:
        subprocess.run(["umount", str(home)], check=True)
