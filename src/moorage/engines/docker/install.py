"""Installing Debian's Docker package, where there is no engine and Moorage may."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from moorage.kit.errors import SetupError
from moorage.kit.log_files import open_log_file
from moorage.kit.package_lists import update_when_free
from moorage.kit.settings import Settings

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ENGINE_PACKAGES = ("docker.io", "docker-ce", "moby-engine", "docker-engine")
_UPDATE_TIMEOUT_S = 300.0
_INSTALL_TIMEOUT_S = 900.0
_PATIENT = ("-o", "DPkg::Lock::Timeout=300")
"""In its first minutes a machine often upgrades itself."""


async def install_engine(settings: Settings, progress: Callable[[str], None], search_path: str) -> None:
    """`apt-get install docker.io`, without removing anything. Raises `SetupError`, which says what to do."""
    if not settings.install_engine:
        raise SetupError(
            "There is no Docker engine, and install_engine forbids installing one. Install Docker, or allow "
            "it (MOORAGE_INSTALL_ENGINE=true)."
        )
    installer = shutil.which("apt-get", path=search_path)
    if installer is None:
        raise SetupError(
            "There is no Docker engine and no apt-get to install one. Install and start Docker the way your "
            "system does, then start Moorage again."
        )
    present = await _installed_engine_package(search_path)
    if present is not None:
        raise SetupError(
            f"The package {present} is installed, but its engine does not answer and there is no dockerd to "
            f"start. Repair it (e.g. apt-get install --reinstall {present}), start it, then start Moorage "
            "again."
        )
    log_file = settings.log_dir.absolute() / "install-engine.log"
    progress("No Docker engine found: installing Debian's docker.io (about 65 MB) …")
    await update_when_free(lambda: _apt(installer, ["update"], log_file, _UPDATE_TIMEOUT_S))
    arguments = ["install", "-y", "--no-install-recommends", "--no-remove", "docker.io", "iptables"]
    await _apt(installer, arguments, log_file, _INSTALL_TIMEOUT_S)
    progress("Docker is installed.")


async def _installed_engine_package(search_path: str) -> str | None:
    query = shutil.which("dpkg-query", path=search_path)
    if query is None:
        return None
    for package in _ENGINE_PACKAGES:
        process = await asyncio.create_subprocess_exec(
            query,
            *("--show", "--showformat=${db:Status-Status}", package),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(30):
            output, _ = await process.communicate()
        if output.strip() == b"installed":
            return package
    return None


async def _apt(installer: str, arguments: list[str], log_file: Path, timeout_s: float) -> None:
    environment = dict(os.environ) | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    with os.fdopen(open_log_file(log_file), "ab") as log:
        process = await asyncio.create_subprocess_exec(
            installer,
            *_PATIENT,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )
    try:
        async with asyncio.timeout(timeout_s):
            status = await process.wait()
    except TimeoutError as exc:
        process.terminate()
        await process.wait()
        raise SetupError(
            f"apt-get {arguments[0]} did not end within {timeout_s:g} s; see {log_file}."
        ) from exc
    if status != 0:
        raise SetupError(
            f"apt-get {arguments[0]} failed: {_last_line(log_file)} (more in {log_file}). "
            "Install Docker by hand and start Moorage again."
        )


def _last_line(file: Path) -> str:
    return "".join(file.read_text(errors="replace").strip().splitlines()[-1:])
