"""A version in a file: a wheel, a Debian package, or a bundle of a wheel with all that it needs. What it is, and how it comes to a folder
of its own.

What a file is says its content, not its name.
"""

import contextlib
import email.parser
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from moorage.kit.errors import SetupError
from moorage.kit.whole_files import write_whole

_LOCK = "moorage/shipped/requirements-run.lock"
_INSTALL_LIMIT_S = 1800.0
_DEB_MAGIC = b"!<arch>\n"
_FIELDS = ("Package", "Moorage-Version", "Moorage-Python")
_LAST_WORDS = 800
_ROOM = ".unpacked-"
_INSTALL = ("apt-get", "install", "--yes", "--no-remove", "--allow-downgrades", "--reinstall")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!-]{0,250}")
_FROM = ".put-there-from"
"""In a version's folder: the digest of the file that it was made from, once it was whole."""


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
                with _room_beside(folder) as room:
                    # apt-get goes by the name, too.
                    package = room / "moorage.deb"
                    shutil.copyfile(self.file, package)
                    # It looks with a user of its own.
                    room.chmod(0o755)
                    package.chmod(0o644)
                    # Its own scripts make the folder, and leave the service as it is.
                    _run([*_INSTALL, str(package)])
            case Kind.WHEEL:
                remove_version(folder)
                with _room_beside(folder) as room:
                    wheel = room / self._wheel_name
                    shutil.copyfile(self.file, wheel)
                    _make_environment(folder, wheel, ())
            case Kind.BUNDLE:
                remove_version(folder)
                with _room_beside(folder) as room, tarfile.open(self.file) as archive:
                    for name, member in _members(archive).items():
                        target = self._wheel_name if _is_ours(name) else name
                        with (room / target).open("xb") as opened:
                            shutil.copyfileobj(_content(archive, member), opened)
                    wheel = room / self._wheel_name
                    _make_environment(folder, wheel, ("--no-index", "--find-links", str(room)))
        if not (folder / "bin/moor").is_file():
            raise SetupError(f"{self.file} was installed, but there is no {folder}/bin/moor.")
        # Else a machine that loses its power would find a folder that looks whole.
        os.sync()
        write_whole(folder / _FROM, self._digest(), 0o644)

    def is_in(self, folder: Path) -> bool:
        """Whole, and of this file: another one of the same version, built anew perhaps, is put there in its place."""
        try:
            return (folder / _FROM).read_text() == self._digest()
        except FileNotFoundError:
            return False

    @property
    def _wheel_name(self) -> str:
        """pip goes by the name, and a file may have any."""
        return f"moorage-{self.version}-py3-none-any.whl"

    def _digest(self) -> str:
        with self.file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()


def read_release(file: Path) -> Release:
    try:
        with file.open("rb") as opened:
            begins = opened.read(len(_DEB_MAGIC))
    except OSError as exc:
        raise SetupError(f"Cannot read {file}: {exc.strerror}.") from exc
    try:
        release = _read(file, begins)
        SpecifierSet(release.python)
    except SetupError:
        raise
    except Exception as exc:
        # Whatever somebody put into it, and whatever the libraries say to that.
        raise SetupError(f"{file} is damaged: {exc}.") from exc
    return release


def _read(file: Path, begins: bytes) -> Release:
    if begins == _DEB_MAGIC:
        return _deb(file)
    # First, because a bundle ends with what a wheel ends with.
    if tarfile.is_tarfile(file):
        return _bundle(file)
    if zipfile.is_zipfile(file):
        with file.open("rb") as opened:
            return _wheel(file, opened, Kind.WHEEL)
    raise SetupError(f"{file} is neither a wheel of Moorage, nor its Debian package, nor its bundle.")


def _wheel(file: Path, wheel: IO[bytes], kind: Kind) -> Release:
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
        members = _members(archive)
        ours = [member for name, member in members.items() if _is_ours(name)]
        if len(ours) != 1 or "python" not in members:
            raise SetupError(f"{file} is an archive, but not a bundle of Moorage.")
        found = _wheel(file, _content(archive, ours[0]), Kind.BUNDLE)
        python = _content(archive, members["python"]).read(16).decode().strip()
        return Release(file, Kind.BUNDLE, found.version, f"=={python}.*")


def _members(archive: tarfile.TarFile) -> Mapping[str, tarfile.TarInfo]:
    """Files beside each other are all that a bundle has: nothing that leads elsewhere is followed or made. Seen to here, because the
    library's filters are not in every Python 3.11: not in Debian 12's."""
    found: dict[str, tarfile.TarInfo] = {}
    for member in archive:
        if not member.isreg() or _PLAIN_NAME.fullmatch(member.name) is None or member.name in found:
            raise tarfile.ReadError(f"{member.name!r} does not belong into a bundle")
        found[member.name] = member
    return found


def _is_ours(name: str) -> bool:
    return name.startswith("moorage-") and name.endswith(".whl")


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    assert content is not None, "it is a file"
    return content


@contextlib.contextmanager
def _room_beside(folder: Path) -> Iterator[Path]:
    """For what a version is made of."""
    versions = folder.parent
    if not versions.is_dir():
        versions.mkdir(parents=True)
        versions.chmod(0o755)
    with tempfile.TemporaryDirectory(dir=versions, prefix=_ROOM) as room:
        yield Path(room)


def remove_unfinished(folder: Path) -> None:
    """With what it was to be made of: whoever is killed leaves that too."""
    for left in (*folder.parent.glob(f"{_ROOM}*"), folder):
        remove_version(left)


def remove_version(folder: Path) -> None:
    """What makes it one goes first: half of it must never be taken for a version."""
    with contextlib.suppress(OSError):
        (folder / "bin/moor").unlink()
    shutil.rmtree(folder, ignore_errors=True)


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
