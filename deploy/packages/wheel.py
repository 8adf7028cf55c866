"""Builds Moorage's wheel: `make wheel`. With the built console and handbook in it, so that whoever installs it needs neither Node nor a
compiler.

It is built from a copy of the tree, in which the version is that of the tag.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

from version import version_of

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = REPOSITORY / "build/packages"
_NEEDED = ("pyproject.toml", "README.md", "LICENSE", "src")
_BUILT = ("dist", "dist-handbook")
SHIPPED = (
    *("pyproject.toml", "README.md", "LICENSE", "requirements-run.lock", "requirements-setup.lock"),
    *("scripts/setup", "examples/chat"),
)
"""What `kit/shipped.py` looks for."""
_LIMIT_S = 300.0


def build_wheel(say: Callable[[str], None]) -> Path:
    for name in _BUILT:
        if not (REPOSITORY / "src/moorage/console" / name / "index.html").is_file():
            raise SystemExit(f"wheel: src/moorage/console/{name} was not built; run `make console handbook`")
    PACKAGES.mkdir(parents=True, exist_ok=True)
    version = version_of(REPOSITORY, _written())
    say(f"Building the wheel of {version}")
    with tempfile.TemporaryDirectory(dir=PACKAGES, prefix="wheel-") as folder:
        tree = Path(folder) / "tree"
        _copy(tree)
        _set_version(tree / "pyproject.toml", version)
        for name in SHIPPED:
            _take(
                tree / name if (tree / name).exists() else REPOSITORY / name,
                tree / "src/moorage/shipped" / name,
            )
        made = Path(folder) / "made"
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(made)],
            cwd=tree, check=True, timeout=_LIMIT_S, capture_output=True,
        )  # fmt: skip
        (wheel,) = made.glob("*.whl")
        for old in PACKAGES.glob("*.whl"):
            old.unlink()
        return Path(shutil.move(wheel, PACKAGES / wheel.name))


def _written() -> str:
    return str(tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"])


def _copy(tree: Path) -> None:
    for name in _NEEDED:
        _take(REPOSITORY / name, tree / name)


def _take(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".sources"))
    else:
        shutil.copy2(source, target)


def _set_version(file: Path, version: str) -> None:
    text, changed = re.subn(r'(?m)^version = "[^"]+"$', f'version = "{version}"', file.read_text(), count=1)
    assert changed == 1, "the project's version is a line of its own"
    file.write_text(text)


if __name__ == "__main__":
    print(build_wheel(print).relative_to(REPOSITORY))
