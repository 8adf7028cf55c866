"""What this machine says about itself when it joins."""

import os
import platform
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

from moorage.engines.sandboxes import SANDBOX_RUNTIME

_TIMEOUT_S = 20.0


def facts() -> dict[str, Any]:
    return {
        "architecture": platform.machine()[:200],
        "kernel": platform.release()[:200],
        "system": _system()[:200],
        "cpus": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "disk_free_bytes": shutil.disk_usage("/var/lib").free,
        "gpus": [name[:200] for name in _lines("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")][
            :64
        ],
        "gpu_uuids": _lines("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")[:64],
        "runtime": "runsc" if has_sandbox() else None,
        "docker": next(iter(_lines("docker", "version", "--format", "{{.Server.Version}}")), None),
    }


def host_name() -> str:
    """As machines' names may be written."""
    plain = re.sub(r"[^a-z0-9.-]+", "-", socket.gethostname().lower()).strip("-.")
    return plain[:63].strip("-.") or "machine"


def has_gpus() -> bool:
    return bool(_lines("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"))


def has_sandbox() -> bool:
    """Docker knows it; it was tried when it was set up (`sandbox.py`)."""
    known = _lines("docker", "info", "--format", "{{range $name, $_ := .Runtimes}}{{println $name}}{{end}}")
    return SANDBOX_RUNTIME in known


def _system() -> str:
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return "unknown"
    named = [line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME=")]
    return named[0] if named else "unknown"


def _lines(program: str, *arguments: str) -> list[str]:
    """Nothing where the program is not there or fails: then there is nothing to say."""
    path = shutil.which(program)
    if path is None:
        return []
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []
