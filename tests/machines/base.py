"""A minimal Debian in a folder, of which every machine of the lab is a copy on write.

It has what a server has before Moorage is heard of: `sudo`, and `curl` to fetch something with. Docker, WireGuard and Python come
by the join script.
"""

import re
import shutil
import subprocess
from pathlib import Path

from tests.packages import install

_RELEASE = "bookworm"
_PACKAGES = "ca-certificates,curl,sudo"
_LIMIT_S = 1200.0


def made_base(folder: Path) -> Path:
    """Made by debootstrap, unless it is there: whoever tries the lab often keeps the folder."""
    if (folder / "complete").exists():
        return folder / "root"
    if shutil.which("debootstrap") is None:
        install("debootstrap")
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _RELEASE, str(root), _mirror()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    _reach_packages_as_this_machine_does(root)
    (folder / "complete").touch()
    return root


def _mirror() -> str:
    lists = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    text = "\n".join(one.read_text() for one in lists if one.is_file())
    found = re.search(r"^(?:URIs:|deb )[^\n]*?([a-z+]+://\S+)", text, re.MULTILINE)
    assert found is not None, "this machine names no source of Debian packages"
    return found[1]


def _reach_packages_as_this_machine_does(root: Path) -> None:
    """That is the machine's business, not a part of what is tried."""
    shutil.rmtree(root / "etc/apt")
    shutil.copytree("/etc/apt", root / "etc/apt")
    for name in ("resolv.conf", "pip.conf"):
        if (Path("/etc") / name).exists():
            shutil.copy(Path("/etc") / name, root / "etc" / name)
    for authority in Path("/usr/local/share/ca-certificates").glob("*.crt"):
        trust(root, authority.stem, authority.read_text())
    # uv brings certificates of its own, and would not look at the machine's.
    (root / "etc/uv").mkdir()
    (root / "etc/uv/uv.toml").write_text("system-certs = true\n")


def trust(root: Path, name: str, certificate: str) -> None:
    """As an operator does whose certificates nobody else knows."""
    (root / f"usr/local/share/ca-certificates/{name}.crt").write_text(certificate)
    subprocess.run(["chroot", root, "update-ca-certificates"], check=True, capture_output=True)
