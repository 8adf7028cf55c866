"""Doing what `plan.py` lists. Each step may be repeated."""

import asyncio
import errno
import secrets
import shutil
import subprocess
from pathlib import Path

from moorage.engines.docker.daemon import remove_engine_data
from moorage.engines.docker.install import SYSTEM_PATH, install_engine
from moorage.entrypoints.full_backup import new_recovery_key
from moorage.entrypoints.service.places import BACKUPS
from moorage.entrypoints.service.plan import (
    Call,
    InstallPackages,
    Link,
    MakeFolder,
    MakeSettings,
    MakeUser,
    Move,
    Remove,
    RemoveData,
    Step,
    StopEverything,
    WriteFile,
)
from moorage.entrypoints.service.settings_file import settings_file
from moorage.entrypoints.up import Say, stop_everything
from moorage.kit.errors import SetupError
from moorage.kit.home import create_service_user
from moorage.kit.settings import Settings
from moorage.kit.whole_files import write_whole

_CALL_LIMIT_S = 600.0
"""The service says that it is up when the tables are made."""


async def do(step: Step, settings: Settings, say: Say) -> None:
    match step:
        case InstallPackages():
            settings.log_dir.mkdir(parents=True, exist_ok=True)
            await install_engine(settings, say, SYSTEM_PATH)
        case MakeUser():
            await asyncio.to_thread(create_service_user)
        case MakeFolder(_, path, mode):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(mode)
        case WriteFile(_, path, text, mode):
            write_whole(path, text, mode)
        case MakeSettings(_, path, key):
            _make_settings(path, key)
        case Move(_, source, target):
            shutil.move(source, target)
        case Link(_, path, target):
            exchange_link(path, target)
        case Remove(_, path):
            await asyncio.to_thread(_remove, path)
        case RemoveData(_, path):
            await asyncio.to_thread(_remove_data, path)
        case Call(_, arguments):
            await asyncio.to_thread(systemctl, arguments)
        case StopEverything(_, remove_replicas):
            await stop_everything(settings, say, remove_replicas=remove_replicas)
            if remove_replicas:
                await remove_engine_data(settings)
        case _:
            raise AssertionError(f"nobody knows how to do {step}")


def _make_settings(path: Path, key: Path) -> None:
    """The key first: settings that name one whose other half is nowhere would make backups that nobody can read."""
    made = new_recovery_key()
    if key.exists():
        raise SetupError(
            f"{key} exists but {path} does not, and backups may be encrypted for that key. Put {path} back, "
            "or move the key away, then run this again."
        )
    write_whole(key, made.text, 0o600)
    chosen = {"backup_recipient": made.recipient, "backup_folder": str(BACKUPS)}
    # It may get secrets: those of the mail server and of providers.
    write_whole(path, settings_file(chosen), 0o600)


def exchange_link(path: Path, target: Path) -> None:
    """Exchanged in one step: whoever starts something meanwhile finds the one or the other."""
    if path.exists() and not path.is_symlink():
        raise SetupError(
            f"{path} should be a link to {target} but is something else. Move it away and run this again."
        )
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    unfinished.symlink_to(target)
    unfinished.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _remove_data(path: Path) -> None:
    folder = path.resolve()
    for inside in folder.iterdir():
        _remove(inside)
    try:
        folder.rmdir()
    except OSError as exc:
        # A disk that is mounted there stays, empty.
        if exc.errno != errno.EBUSY:
            raise
    if path.is_symlink():
        path.unlink()


def systemctl(arguments: tuple[str, ...]) -> str:
    done = subprocess.run(
        ["systemctl", *arguments], capture_output=True, text=True, timeout=_CALL_LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise SetupError(
            f"systemctl {' '.join(arguments)} failed: {done.stderr.strip()} See Moorage's log: journalctl -u 'moorage*' -n 50"
        )
    return done.stdout
