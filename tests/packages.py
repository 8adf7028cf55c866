"""Debian's packages that tests need, installed once where they are missing."""

import fcntl
import os
import subprocess
import tempfile
import time
from pathlib import Path

_WITHIN_S = 900.0


def install(*packages: str) -> None:
    """As root. Another process of these tests may be at it, or an upgrade of the machine's own: then it waits."""
    deadline_s = time.monotonic() + _WITHIN_S
    with open(Path(tempfile.gettempdir()) / "moorage-tests-packages", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        # For the lists, unlike for the packages, apt-get does not wait until another is done with them.
        while "Unable to lock directory" in (said := _apt("update")) and time.monotonic() < deadline_s:
            time.sleep(1)
        assert not said, said
        said = _apt("install", "-y", "--no-install-recommends", "--no-remove", *packages)
        assert not said, said


def _apt(*arguments: str) -> str:
    """What it complained of, if it failed."""
    # Run level 1 keeps a package from starting a service of its own.
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1", "LC_ALL": "C"}
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_WITHIN_S)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def static_busybox() -> Path:
    path = Path("/bin/busybox")
    if not path.exists():
        install("busybox-static")
    return path
