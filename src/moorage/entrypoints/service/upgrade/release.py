"""A version in a file: a wheel, a Debian package, or a bundle of a wheel with all that it needs. What it is, and how it comes to a folder
of its own.

What a file is says its content, not its name.
"""

import email.parser
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from moorage.kit.errors import SetupError

_LOCK = "moorage/shipped/requirements-run.lock"
_INSTALL_LIMIT_S = 1800.0
_DEB_MAGIC = b"!<arch>\n"
_FIELDS = ("Package", "Moorage-Version", "Moorage-Python")
_LAST_WORDS = 800


class Kind(StrEnum):
    WHEEL = "wheel"
    DEB = "deb"
    BUNDLE = "bundle"


@dataclass(frozen=True)
class Release:
    file: Path
    kind: Kind
    version: Version
    python: str
    """Which ones it is for, as Python's packages say it: `>=3.11` or `==3.11.*`."""

    def lacks(self) -> str | None:
        """What of this machine does not fit."""
        if self.kind is Kind.DEB and shutil.which("apt-get") is None:
            return "a Debian package needs Debian's or Ubuntu's apt-get. Use the wheel."
        if self.kind is Kind.DEB:
            ours = _system_python()
            # A package is run by the distribution's Python, whatever runs this.
            return (
                None
                if ours in SpecifierSet(self.python)
                else f"it is for Python {self.python}, but /usr/bin/python3 is {ours}."
            )
        ours = Version(".".join(map(str, sys.version_info[:3])))
        return (
            None
            if ours in SpecifierSet(self.python)
            else f"it needs Python {self.python}, but this is {ours}."
        )

    def put_into(self, folder: Path) -> None:
        """Whole, or an error; then what there is of the folder is for removing."""
        match self.kind:
            case Kind.DEB:
                # Its own scripts make the folder, and leave the service as it is.
                _run(
                    [
                        "apt-get",
                        "install",
                        "--yes",
                        "--no-remove",
                        "--allow-downgrades",
                        "--reinstall",
                        str(self.file.resolve()),
                    ]
                )
            case Kind.WHEEL:
                _make_environment(folder, self.file, ())
            case Kind.BUNDLE:
                with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".bundle-") as unpacked:
                    with tarfile.open(self.file) as archive:
                        archive.extractall(unpacked, filter="data")
                    wheel = next(Path(unpacked).glob("moorage-*.whl"))
                    _make_environment(folder, wheel, ("--no-index", "--find-links", unpacked))
        if not (folder / "bin/moor").is_file():
            raise SetupError(f"{self.file} was installed, but there is no {folder}/bin/moor.")


def read_release(file: Path) -> Release:
    try:
        with file.open("rb") as opened:
            begins = opened.read(len(_DEB_MAGIC))
    except OSError as exc:
        raise SetupError(f"Cannot read {file}: {exc.strerror}.") from exc
    try:
        if begins == _DEB_MAGIC:
            return _deb(file)
        # First, because a bundle ends with what a wheel ends with.
        if tarfile.is_tarfile(file):
            return _bundle(file)
        if zipfile.is_zipfile(file):
            return _wheel(file, file, Kind.WHEEL)
    except (OSError, zipfile.BadZipFile, tarfile.TarError, InvalidVersion) as exc:
        raise SetupError(f"{file} is damaged: {exc}.") from exc
    raise SetupError(f"{file} is neither a wheel of Moorage, nor its Debian package, nor its bundle.")


def _wheel(file: Path, wheel: Path, kind: Kind) -> Release:
    with zipfile.ZipFile(wheel) as opened:
        names = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        if len(names) != 1:
            raise SetupError(f"{file} is not a wheel.")
        told = email.parser.HeaderParser().parsestr(opened.read(names[0]).decode())
        if told["Name"] != "moorage" or _LOCK not in opened.namelist():
            raise SetupError(
                f"{file} is a wheel of {told['Name']}, not one that `make wheel` of Moorage made."
            )
    return Release(file, kind, Version(told["Version"]), told["Requires-Python"] or "")


def _bundle(file: Path) -> Release:
    with tarfile.open(file) as archive:
        names = archive.getnames()
        wheel = next((name for name in names if name.startswith("moorage-") and name.endswith(".whl")), None)
        python = "python" in names and archive.extractfile("python")
        if wheel is None or not python:
            raise SetupError(f"{file} is an archive, but not a bundle of Moorage.")
        with tempfile.TemporaryDirectory() as unpacked:
            archive.extract(wheel, unpacked, filter="data")
            found = _wheel(file, Path(unpacked, wheel), Kind.BUNDLE)
        return Release(file, Kind.BUNDLE, found.version, f"=={python.read(16).decode().strip()}.*")


def _deb(file: Path) -> Release:
    told = dict(
        line.split(": ", 1)
        for line in _run(["dpkg-deb", "--field", str(file), *_FIELDS]).splitlines()
        if ": " in line
    )
    if told.get("Package") != "moorage" or not all(name in told for name in _FIELDS):
        raise SetupError(
            f"{file} is a package of {told.get('Package')}, not one that `make deb` of Moorage made."
        )
    return Release(file, Kind.DEB, Version(told["Moorage-Version"]), f"=={told['Moorage-Python']}.*")


def _make_environment(folder: Path, wheel: Path, where: Sequence[str]) -> None:
    """At the versions of the lock, which the wheel brings."""
    _run([sys._base_executable, "-m", "venv", str(folder)])  # type: ignore[attr-defined]
    pip = [
        str(folder / "bin/python3"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        *where,
    ]
    with tempfile.TemporaryDirectory() as room, zipfile.ZipFile(wheel) as opened:
        lock = Path(room, "requirements-run.lock")
        lock.write_bytes(opened.read(_LOCK))
        _run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(lock)])
    _run([*pip, "--no-deps", "--no-index", str(wheel)])


def _system_python() -> Version:
    return Version(
        _run(["/usr/bin/python3", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"]).strip()
    )


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_INSTALL_LIMIT_S, check=False,
            umask=0o022, close_fds=False,  # With the journal's lock.
        )  # fmt: skip
    except FileNotFoundError as exc:
        raise SetupError(f"There is no {command[0]} on this machine.") from exc
    if done.returncode != 0:
        raise SetupError(
            f"{' '.join(command[:3])} … failed: {(done.stderr or done.stdout).strip()[-_LAST_WORDS:]}"
        )
    return done.stdout
