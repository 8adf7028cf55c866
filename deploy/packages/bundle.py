"""Builds a bundle: `make bundle`. The wheel with every package that it needs, for one Python, so that `moor upgrade FILE` needs no network."""

import argparse
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from wheel import PACKAGES, REPOSITORY, build_wheel

_LIMIT_S = 900.0


def build_bundle(python: str, say: Callable[[str], None]) -> Path:
    wheel = build_wheel(say)
    target = (
        PACKAGES / f"{wheel.name.removesuffix('-py3-none-any.whl')}-python{python}-{platform.machine()}.tar"
    )
    with tempfile.TemporaryDirectory(dir=PACKAGES, prefix="bundle-") as folder:
        say(f"Fetching the packages of requirements-run.lock for Python {python}")
        fetch = [
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--only-binary",
            ":all:",
        ]
        # pip stands beside uv, for what uv cannot do.
        pip = REPOSITORY / ".venv/tools/bin/python"
        lock = ["-r", str(REPOSITORY / "requirements-run.lock"), "--python-version", python, "--dest", folder]
        done = subprocess.run(
            [str(pip), *fetch, *lock], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"bundle: pip failed: {done.stderr.strip()[-2000:]}")
        Path(folder, "python").write_text(python)
        with tarfile.open(target, "w") as archive:
            archive.add(wheel, wheel.name)
            for file in sorted(Path(folder).iterdir()):
                archive.add(file, file.name)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds a bundle for upgrades without a network.")
    parser.add_argument("--python", default=f"{sys.version_info[0]}.{sys.version_info[1]}")
    print(build_bundle(parser.parse_args().python, print).relative_to(REPOSITORY))


if __name__ == "__main__":
    main()
