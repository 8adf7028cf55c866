"""What `plan.py` has to know of this machine, looked up; nothing is changed."""

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from moorage.engines.docker.connection import answers
from moorage.engines.docker.daemon import known_host
from moorage.entrypoints.foundation import running_pid
from moorage.entrypoints.service.places import (
    COMMAND_ON_PATH,
    CONFIG,
    CONFIG_IN_HOME,
    CURRENT,
    PACKAGED_COMMAND,
    PACKAGED_UNITS,
    RECOVERY_KEY,
    UNITS,
)
from moorage.entrypoints.service.plan import FOLDERS, TO_ENABLE, USER, Machine
from moorage.entrypoints.service.units import SERVICE, units
from moorage.kit.home import has_user
from moorage.kit.settings import Settings

_LIMIT_S = 60.0


async def look(settings: Settings) -> Machine:
    """`settings`: of the data folder that the service has."""
    environment = Path(sys.prefix)
    files = [CONFIG, RECOVERY_KEY, *(folder / name for name in units() for folder in (UNITS, PACKAGED_UNITS))]
    links = (CURRENT, COMMAND_ON_PATH, CONFIG_IN_HOME)
    active = _those("is-active", "active")
    return Machine(
        is_root=os.geteuid() == 0,
        runs_systemd=runs_systemd(),
        environment=environment,
        has_command=(environment / "bin/moor").is_file(),
        strangers=tuple(_open_to_others(environment)),
        has_user=has_user(USER),
        folders={path: stat.S_IMODE(path.stat().st_mode) for path in FOLDERS if path.is_dir()},
        texts={path: path.read_text() for path in files if path.is_file()},
        links={path: path.readlink() for path in links if path.is_symlink()},
        other_files=frozenset(
            path
            for path in (*links, PACKAGED_COMMAND)
            if _is_there(path) and (path is PACKAGED_COMMAND or not path.is_symlink())
        )
        | {UNITS / name for name in units() if (UNITS / name).is_symlink()},
        enabled=_those("is-enabled", "enabled"),
        active=active,
        has_engine=await answers(known_host(settings)) or _has_program("dockerd"),
        runs_up=running_pid(settings) is not None and SERVICE not in active,
    )


def runs_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()


def firewalls() -> list[str]:
    """That are at work and would keep people out."""
    return [name for name in ("ufw", "firewalld", "nftables") if _asked("is-active", name) == "active"]


def _is_there(path: Path) -> bool:
    """A link that leads nowhere is."""
    return path.is_symlink() or path.exists()


def _open_to_others(environment: Path) -> list[Path]:
    """Whoever may write to one of them decides what root runs."""
    ways = [
        *environment.parents,
        environment,
        environment / "bin",
        *environment.glob("lib/python3.*/site-packages"),
        *_interpreter(environment),
    ]
    found = []
    for path in ways:
        seen = path.stat()
        # A folder like /tmp keeps others from what is not theirs.
        others = seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not seen.st_mode & stat.S_ISVTX
        if seen.st_uid != 0 or others:
            found.append(path)
    return found


def _interpreter(environment: Path) -> Sequence[Path]:
    """Somebody's own Python may have made the environment, and runs it."""
    program = (environment / "bin/python3").resolve()
    if not program.exists():
        return []
    return [program, *program.parents, *program.parent.parent.glob("lib/python3.*")]


def _has_program(name: str) -> bool:
    return any(Path(folder, name).is_file() for folder in ("/usr/local/bin", "/usr/bin", "/usr/sbin"))


def _those(question: str, answer: str) -> frozenset[str]:
    return frozenset(name for name in TO_ENABLE if _asked(question, name) == answer)


def _asked(question: str, name: str) -> str:
    """Without systemd at work none is active, but enabled they may be."""
    try:
        done = subprocess.run(
            ["systemctl", question, name], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
