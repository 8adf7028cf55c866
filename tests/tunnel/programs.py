"""What the tunnel needs of Debian, installed once where it is missing."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_PACKAGES = {
    "ip": "iproute2",
    "iptables": "iptables",
    "wg": "wireguard-tools",
    "wireguard-go": "wireguard-go",
    "setpriv": "util-linux",
}


def have_tunnel_programs() -> None:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    # Another process of these tests may be at it.
    with open(Path(tempfile.gettempdir()) / "moorage-tests-packages", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        _install_missing()


def _install_missing() -> None:
    missing = [package for program, package in _PACKAGES.items() if shutil.which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        pytest.skip(f"no {', '.join(missing)} here, and no apt-get to install them with")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", "--no-remove", *missing]):
        subprocess.run(["apt-get", *arguments], check=True, env=environment, capture_output=True)
