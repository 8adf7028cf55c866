"""Versions of Moorage to go from and to: this tree, built as a wheel is, for folders of a test instead of the machine's own."""

import base64
import hashlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
_WHERE = {
    "/opt/moorage": "opt",
    "/var/lib/moorage": "home",
    "/var/backups/moorage": "backups",
    "/etc/moorage": "etc",
    "/etc/systemd/system": "units",
    "/run/systemd/system": "systemd",
    "/usr/local/bin/moor": "moor",
}
"""Where it is on a machine, and here."""
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "dist", "dist-handbook")
_LIMIT_S = 300.0

Changes = Mapping[str, tuple[str, str]]
"""By file: what is written there instead of what, or at its end where that is empty."""


@dataclass(frozen=True)
class Folders:
    base: Path

    def __getitem__(self, name: str) -> Path:
        return self.base / name


def build_wheel(folders: Folders, version: str, changes: Changes = {}) -> Path:  # noqa: B006 - read only
    """Its dependencies are those of this environment, so nothing has to be fetched."""
    tree = folders.base / f"tree-{version}"
    for package in ("moorage", "moorage_cli"):
        shutil.copytree(SOURCES / package, tree / package, ignore=_LEFT_OUT)
    for file in tree.rglob("*.py"):
        text = file.read_text()
        for there, here in _WHERE.items():
            text = text.replace(f'"{there}', f'"{folders[here]}')
        file.write_text(text)
    for name, (old, new) in changes.items():
        file = tree / name
        text = file.read_text() if file.exists() else ""
        assert old in text, f"{name} has no {old!r}"
        file.write_text(text.replace(old, new, 1) if old else text + new)
    _write(tree / "moorage/shipped/requirements-run.lock", "")
    _write(tree / "moorage-of-a-test.pth", sysconfig.get_paths()["purelib"] + "\n")
    about = f"moorage-{version}.dist-info"
    _write(
        tree / about / "METADATA",
        f"Metadata-Version: 2.1\nName: moorage\nVersion: {version}\nRequires-Python: >=3.11\n",
    )
    _write(
        tree / about / "WHEEL",
        "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    )
    _write(tree / about / "entry_points.txt", "[console_scripts]\nmoor = moorage.entrypoints.moor:main\n")
    wheel = folders.base / f"moorage-{version}-py3-none-any.whl"
    lines = []
    with zipfile.ZipFile(wheel, "w") as packed:
        for file in sorted(path for path in tree.rglob("*") if path.is_file()):
            name, content = file.relative_to(tree).as_posix(), file.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}")
            packed.writestr(name, content)
        packed.writestr(f"{about}/RECORD", "\n".join([*lines, f"{about}/RECORD,,"]) + "\n")
    shutil.rmtree(tree)
    return wheel


def install(folders: Folders, wheel: Path) -> Path:
    """As the first installation is made, by hand."""
    environment = folders["opt"] / "versions" / wheel.name.split("-")[1]
    python = str(environment / "bin/python3")
    for command in (
        [sys._base_executable, "-m", "venv", str(environment)],  # type: ignore[attr-defined]
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--disable-pip-version-check",
            str(wheel),
        ],
    ):
        subprocess.run(command, check=True, timeout=_LIMIT_S)
    return environment


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
