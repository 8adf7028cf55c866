"""Packages of later versions: the one that was built, unpacked, given another version and another behaviour, and packed again."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

Changes = Mapping[str, tuple[str, str]]
"""By file of `moorage`: what is written there instead of what; all of it, where that is empty."""


def newer_package(deb: Path, folder: Path, version: str, changes: Changes) -> Path:
    tree = folder / f"tree-{version}"
    _run("dpkg-deb", "--raw-extract", str(deb), str(tree))
    control = (tree / "DEBIAN/control").read_text()
    before = re.search(r"^Moorage-Version: (.+)$", control, re.MULTILINE)
    python = re.search(r"^Moorage-Python: (.+)$", control, re.MULTILINE)
    assert before is not None
    assert python is not None
    packaged = tree / "opt/moorage/packaged" / version
    (packaged.with_name(before[1])).rename(packaged)
    for file in (tree / "DEBIAN/postinst", *(packaged / "bin").glob("moor*")):
        file.write_text(file.read_text().replace(before[1], version))
    control = re.sub(r"(?m)^Version: .+$", f"Version: {version}-1~python{python[1]}", control)
    (tree / "DEBIAN/control").write_text(control.replace(before[0], f"Moorage-Version: {version}"))
    (packages,) = packaged.glob("lib/python3.*/site-packages")
    (about,) = packages.glob("moorage-*.dist-info")
    metadata = (about / "METADATA").read_text()
    (about / "METADATA").write_text(re.sub(r"(?m)^Version: .+$", f"Version: {version}", metadata, count=1))
    about.rename(packages / f"moorage-{version}.dist-info")
    for name, (old, new) in changes.items():
        file = packages / "moorage" / name
        text = file.read_text() if old else ""
        assert old in text
        file.write_text(text.replace(old, new, 1) if old else new)
    target = folder / f"moorage_{version}.deb"
    # dpkg-deb compresses for minutes otherwise.
    _run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z1", "--build", str(tree), str(target))
    shutil.rmtree(tree)
    return target


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=600, capture_output=True)
