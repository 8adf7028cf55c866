"""Builds Moorage's `.deb`: `make deb`. For Debian and Ubuntu, without debhelper.

It holds the environment of one version, with the wheel and every package of `requirements-run.lock`; `moor`; and the units. The
environment lies in `/opt/moorage/packaged/VERSION`, which belongs to dpkg, and is linked file by file to `/opt/moorage/versions/VERSION`,
which does not: a package that replaces another takes nothing away from under what runs. Nothing is downloaded when it is installed, besides what it depends on from the
distribution. Compiled packages are for one Python, so there is one package for each: PYTHON=3.11 for Debian 12, 3.13 for Debian 13.

The service is `moor install`'s to make: installing the package starts nothing. A package that replaces another one leaves the service
on the version before: to change over is `moor upgrade`'s.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from version import debian
from wheel import PACKAGES, REPOSITORY, build_wheel

from moorage.entrypoints.service.places import (
    COMMAND,
    CURRENT,
    PACKAGED_COMMAND,
    PACKAGED_UNITS,
    ROOT,
    STARTS_AT_BOOT,
    VERSIONS,
)
from moorage.entrypoints.service.units import units

_LIMIT_S = 900.0
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONTROL = """\
Package: moorage
Version: {version}
Moorage-Version: {release}
Moorage-Python: {python}
Architecture: {architecture}
Maintainer: Moorage <moorage@localhost>
Installed-Size: {size_kib}
Depends: python{python}, libstdc++6, ca-certificates, iptables, passwd
Recommends: docker.io, systemd, apt
Section: admin
Priority: optional
Description: deploys containers that serve AI inference
 Endpoints with keys, streaming, autoscaling, logs and a bill, on machines of
 your own. Run "moor install" to make it a service of this machine.
"""
_POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    mkdir -p {versions}
    rm -rf {environment}.new {environment}.old
    cp -al {packaged} {environment}.new 2>/dev/null || {{ rm -rf {environment}.new; cp -a {packaged} {environment}.new; }}
    touch {environment}.new/{mark}
    # The units keep Python from writing beside its modules, so it is done now.
    {environment}.new/bin/python3 -m compileall -q -j 0 -s {environment}.new -p {environment} {environment}.new/lib || true
    if [ -e {environment} ]; then mv -T {environment} {environment}.old; fi
    mv -T {environment}.new {environment}
    rm -rf {environment}.old
    [ ! -d /run/systemd/system ] || systemctl daemon-reload
    if [ -e {starts_at_boot} ] && [ -e {current} ]; then
        [ "$(readlink {current})" = {environment} ] || echo 'The service runs the version before. Run "moor upgrade" to change over.'
    else
        ln -sfn {environment} {current}.new && mv -T {current}.new {current}
        [ -n "$2" ] || echo 'Run "moor install" to make Moorage a service of this machine, or "moor up" to try it out.'
    fi
fi
"""
_PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl --quiet disable --now moorage.service moorage-backup.timer \\
        moorage-gateway.service moorage-api.service moorage-controller.service || true
fi
"""
_POSTRM = """\
#!/bin/sh
set -e
case "$1" in
    remove|purge)
        # Those that packages made; one that an operator made stays.
        for version in {versions}/*; do
            [ -e "$version/{mark}" ] || continue
            [ "$(readlink {current} || true)" != "$version" ] || rm -f {current}
            rm -rf "$version"
        done
        [ ! -d /run/systemd/system ] || systemctl daemon-reload
        ;;
esac
# The data stays, after a purge too: "moor uninstall --data remove" is how it goes.
"""
_MARK = ".packaged"
_PACKAGED = ROOT / "packaged"


def build_deb(python: str, say: Callable[[str], None]) -> Path:
    if shutil.which("dpkg-deb") is None:
        raise SystemExit("deb: there is no dpkg-deb here; it takes Debian or Ubuntu")
    wheel = build_wheel(say)
    version = wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory(dir=PACKAGES, prefix="deb-") as folder:
        root = Path(folder) / "root"
        environment, packaged = VERSIONS / version, _PACKAGED / version
        lib = packaged / f"lib/python{python}/site-packages"
        say(f"Installing the packages of requirements-run.lock for Python {python}")
        _install(["--require-hashes", "-r", str(REPOSITORY / "requirements-run.lock")], root, lib, python)
        _install(["--no-deps", str(wheel)], root, lib, python)
        _make_environment(root, packaged, environment, python)
        for name, text in units().items():
            _write(root / _below(PACKAGED_UNITS / name), text)
        command = root / _below(PACKAGED_COMMAND)
        command.parent.mkdir(parents=True)
        command.symlink_to(COMMAND)
        _write(root / "usr/share/doc/moorage/copyright", (REPOSITORY / "LICENSE").read_text())
        shutil.copy2(REPOSITORY / "CHANGELOG.md", root / "usr/share/doc/moorage/CHANGELOG.md")
        _describe(root, version, python)
        target = PACKAGES / f"moorage_{debian(version, python)}_{_architecture()}.deb"
        say("Packing it")
        _run(["dpkg-deb", "--root-owner-group", "-Zzstd", "-z12", "--build", str(root), str(target)])
    return target


def _install(what: list[str], root: Path, lib: Path, python: str) -> None:
    uv = shutil.which("uv") or str(REPOSITORY / ".venv/tools/bin/uv")
    where = ["--python", sys.executable, "--python-version", python, "--target", str(root / _below(lib))]
    # A package that would have to be compiled is not taken: it would be for this machine's Python.
    # With the machine's own certificates, as in scripts/setup.
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1"}
    _run(
        [uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--link-mode", "copy", *where, *what],
        environment,
    )


def _make_environment(root: Path, packaged: Path, environment: Path, python: str) -> None:
    """What `venv` would make in `environment`, for a Python that need not be on this machine."""
    inside = root / _below(packaged)
    _write(
        inside / "pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"
    )
    programs = inside / "bin"
    shutil.rmtree(inside / f"lib/python{python}/site-packages/bin", ignore_errors=True)
    programs.mkdir()
    (programs / f"python{python}").symlink_to(f"/usr/bin/python{python}")
    for name in ("python", "python3"):
        (programs / name).symlink_to(f"python{python}")
    for name, module in (("moor", "moorage.entrypoints.moor"), ("moor-node", "moorage.node.main")):
        text = f"#!{environment}/bin/python3\nimport sys\n\nfrom {module} import main\n\nsys.exit(main())\n"
        _write(programs / name, text, 0o755)


def _describe(root: Path, version: str, python: str) -> None:
    size = sum(path.lstat().st_size for path in root.rglob("*") if not path.is_dir())
    names = {
        "versions": VERSIONS,
        "environment": VERSIONS / version,
        "packaged": _PACKAGED / version,
        "current": CURRENT,
        "starts_at_boot": STARTS_AT_BOOT,
        "mark": _MARK,
    }
    control = _CONTROL.format(
        version=debian(version, python),
        release=version,
        architecture=_architecture(),
        size_kib=size // 1024,
        python=python,
    )
    _write(root / "DEBIAN/control", control)
    for name, text in (("postinst", _POSTINST), ("prerm", _PRERM), ("postrm", _POSTRM)):
        _write(root / "DEBIAN" / name, text.format(**names), 0o755)
    for path in [root, *root.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _below(path: Path) -> Path:
    return path.relative_to("/")


def _architecture() -> str:
    return _ARCHITECTURES[platform.machine()]


def _run(arguments: list[str], environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"deb: {arguments[0]} failed: {(done.stderr or done.stdout).strip()[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds Moorage's Debian package.")
    parser.add_argument(
        "--python", default="3.11", help="of the release it is for: 3.11 (Debian 12), 3.13 (Debian 13)"
    )
    print(build_deb(parser.parse_args().python, print).relative_to(REPOSITORY))


if __name__ == "__main__":
    main()
