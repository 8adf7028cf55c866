"""What the tunnel needs of Debian, installed once where it is missing."""

import os
import shutil

import pytest

from tests.packages import install

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
    missing = [package for program, package in _PACKAGES.items() if shutil.which(program) is None]
    if missing and shutil.which("apt-get") is None:
        pytest.skip(f"no {', '.join(missing)} here, and no apt-get to install them with")
    if missing:
        install(*missing)
