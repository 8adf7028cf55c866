"""Debian's packages that tests need, installed once where they are missing."""

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path


def install(*packages: str) -> None:
    """As root. Another process of these tests may be at it, or an upgrade of the machine's own: then it waits."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    wanted = ["install", "-y", "--no-install-recommends", "--no-remove", *packages]
    with open(Path(tempfile.gettempdir()) / "moorage-tests-packages", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        for arguments in (["update"], wanted):
            command = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *arguments]
            subprocess.run(command, check=True, env=environment, capture_output=True, timeout=900)


def static_busybox() -> Path:
    path = Path("/bin/busybox")
    if not path.exists():
        install("busybox-static")
    return path
