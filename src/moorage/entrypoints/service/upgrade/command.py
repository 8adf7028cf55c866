"""`moor upgrade`: look, say what will be done, ask, do it."""

import asyncio
import contextlib
import importlib.metadata
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from moorage.entrypoints.service.facts import runs_systemd
from moorage.entrypoints.service.places import Installation
from moorage.entrypoints.service.upgrade.back import go_back
from moorage.entrypoints.service.upgrade.changeover import Changeover
from moorage.entrypoints.service.upgrade.gate import Gate
from moorage.entrypoints.service.upgrade.journal import Journal
from moorage.entrypoints.service.upgrade.manager import ServiceManager, Systemd
from moorage.entrypoints.service.upgrade.plan import ROLES, Facts, Room, upgrade
from moorage.entrypoints.service.upgrade.release import Release, read_release
from moorage.kit.database import connect
from moorage.kit.errors import SetupError
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings, as_a_service_has_them, load_settings

Say = Callable[[str], None]
Confirm = Callable[[str], None]
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_upgrade(
    wanted: str | None,
    say: Say,
    confirm: Confirm,
    *,
    older: bool,
    within_s: float,
    installation: Installation,
    manager: ServiceManager | None = None,
) -> None:
    """`wanted`: a version that is here, or a file; else the newest that is here."""
    if manager is None and not runs_systemd():
        raise SetupError("systemd does not run here, so there is no service to upgrade.")
    if os.geteuid() != 0:
        raise SetupError("An upgrade needs root. Run it with sudo.")
    manager, say = manager or Systemd(), _whoever_listens(say)
    if not installation.current.is_symlink():
        raise SetupError("Moorage is not a service here. Run `moor install` first.")
    with as_a_service_has_them(installation.config, installation.home), Journal(installation).held():
        settings = load_settings()
        await _finish_the_last_one(installation, manager, within_s, say)
        release, target, folder = _target(wanted, installation)
        facts = await _facts(installation, settings, manager, release, target, folder, older=older)
        steps = upgrade(facts)
        say(f"From {facts.running} to {target}. This will be done:")
        for step in steps:
            say(f"  - {step.says}")
        say(
            f"Endpoints keep answering. If a part does not serve within {within_s:.0f} s, everything goes back to {facts.running} by itself."
        )
        confirm("Do this?")
        before = installation.current.readlink()
        put = None if facts.is_there else release
        changeover = Changeover(installation, settings, manager, put, before, folder, within_s, say)
        with _interrupted_once():
            await changeover.run(steps)
        say(f"Moorage is at {target}. {before.name} is kept: `moor upgrade {before.name} --older` goes back.")


async def _finish_the_last_one(
    installation: Installation, manager: ServiceManager, within_s: float, say: Say
) -> None:
    entry = Journal(installation).read()
    if entry is None:
        return
    say(f"An upgrade to {entry.after.name} was interrupted. Going back to {entry.before.name} first.")
    troubles = await go_back(installation, entry, Gate(installation, manager, within_s), say)
    if troubles:
        raise SetupError(" ".join(troubles))


def _target(wanted: str | None, installation: Installation) -> tuple[Release | None, Version, Path]:
    here = _versions_here(installation)
    if wanted is None:
        if not here:
            raise SetupError(
                f"There is no version in {installation.versions}. Name the file of a wheel, a Debian "
                "package or a bundle."
            )
        newest = max(here)
        return None, newest, here[newest]
    with contextlib.suppress(InvalidVersion):
        if (version := Version(wanted)) in here:
            return None, version, here[version]
    file = Path(wanted)
    if not file.exists():
        known = ", ".join(str(one) for one in sorted(here)) or "none"
        raise SetupError(
            f"There is no file {wanted}, and no such version in {installation.versions} (there: {known}). Name the file of a wheel, a "
            "Debian package or a bundle."
        )
    release = read_release(file)
    return release, release.version, here.get(release.version, installation.versions / str(release.version))


def _versions_here(installation: Installation) -> dict[Version, Path]:
    """Folders that are named as their version, and whole."""
    found = {}
    for folder in installation.versions.glob("*"):
        with contextlib.suppress(InvalidVersion):
            if (folder / "bin/moor").is_file():
                found[Version(folder.name)] = folder
    return found


async def _facts(
    installation: Installation,
    settings: Settings,
    manager: ServiceManager,
    release: Release | None,
    target: Version,
    folder: Path,
    *,
    older: bool,
) -> Facts:
    current = installation.current.readlink()
    is_there = (folder / "bin/moor").is_file() and (release is None or release.is_in(folder))
    keeps = {current, folder}
    return Facts(
        has_service=all(manager.main_pid(unit) for _, unit in ROLES),
        runs_from=Path(sys.prefix),
        current=current,
        running=Version(importlib.metadata.version("moorage")),
        target=target,
        target_folder=folder,
        is_there=is_there,
        lacks=None if release is None or is_there else release.lacks(),
        rooms=await _rooms(installation, settings, 0 if is_there else _size(current)),
        older_is_meant=older,
        is_encrypted=settings.backup_recipient is not None,
        old_folders=[
            one
            for version, one in sorted(_versions_here(installation).items())
            if version < target and one not in keeps
        ],
    )


async def _rooms(installation: Installation, settings: Settings, version_bytes: int) -> list[Room]:
    connection = await connect(database_dsn(settings), timeout=10)
    try:
        database_bytes = int(await connection.fetchval("SELECT pg_database_size(current_database())"))
    finally:
        await connection.close()
    # A dump, and the same again while it is being encrypted; what is migrated is written anew at most once.
    needs = {installation.root: version_bytes, settings.home: 2 * database_bytes}
    return rooms(needs)


def rooms(needs: Mapping[Path, int]) -> list[Room]:
    """What lies on one disk shares what is free of it."""
    found: dict[int, Room] = {}
    for path, needed_bytes in needs.items():
        device = path.stat().st_dev
        before = found.get(device, Room(path, shutil.disk_usage(path).free, 0))
        found[device] = replace(before, needed_bytes=before.needed_bytes + needed_bytes)
    return list(found.values())


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


@contextlib.contextmanager
def _interrupted_once() -> Iterator[None]:
    """Ctrl-C, and a terminal that goes away, lead back; a second one does not end the way back."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    interrupted: list[bool] = []

    def interrupt() -> None:
        if not interrupted:
            interrupted.append(True)
            task.cancel()

    for one in _SIGNALS:
        loop.add_signal_handler(one, interrupt)
    try:
        yield
    finally:
        for one in _SIGNALS:
            loop.remove_signal_handler(one)


def _whoever_listens(say: Say) -> Say:
    """A terminal that is gone keeps nothing from being done."""

    def told(line: str) -> None:
        with contextlib.suppress(OSError):
            say(line)

    return told
