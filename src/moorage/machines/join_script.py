"""What a machine runs to join: one command, which checks a script by its hash, which checks the sources by theirs.

Neither holds a secret. Both follow from this version and the installation's address alone, so whoever asks twice gets the
same bytes.
"""

import gzip
import hashlib
import io
import shlex
import tarfile
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import moorage
from moorage.kit.errors import UnavailableError
from moorage.kit.settings import Settings
from moorage.kit.shipped import shipped_root

_CODE = Path(moorage.__file__).parents[1]
"""`src` of a checkout, or the folder that a wheel was installed into."""
_FILES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "requirements-run.lock",
    "requirements-setup.lock",
    "scripts/setup",
)
_PACKAGES = ("moorage", "moorage_cli")
_NOT_FOR_MACHINES = frozenset(
    _CODE / "moorage" / name for name in ("console/dist", "console/dist-handbook", "shipped")
)
_TEMPLATE = Path(__file__).with_name("join.sh")
_MAKING = threading.Lock()


@dataclass(frozen=True)
class JoinScript:
    name: str
    text: str


def join_command(base_url: str, script: JoinScript, token: str) -> str:
    """One line. The file is one of its own, so that nobody else on the machine can put another in its place; and the token is
    no argument, which anybody there could read. Where there is no sudo, as on a Debian whose root has a password, whoever
    runs it is root or is told to be."""
    url = shlex.quote(f"{base_url}/api/v1/machines/{script.name}")
    digest = hashlib.sha256(script.text.encode()).hexdigest()
    return (
        f"""f=$(mktemp) && curl --proto '=https' --tlsv1.2 -fsS {url} -o "$f" && """
        f'echo "{digest}  $f" | sha256sum --check --quiet && printf %s {token} | $(command -v sudo) sh "$f"'
    )


def join_script(base_url: str) -> str:
    return _filled_in(base_url, "operator", "no")


def lent_join_script(settings: Settings) -> str:
    return _filled_in(settings.api_base_url, "community", "yes" if settings.allow_runc else "no")


@lru_cache(maxsize=4)
def _filled_in(base_url: str, infrastructure: str, allow_runc: str) -> str:
    text = _TEMPLATE.read_text()
    for name, value in (
        ("@BASE_URL@", base_url),
        ("@BUNDLE_SHA256@", hashlib.sha256(bundle()).hexdigest()),
        ("@INFRASTRUCTURE@", infrastructure),
        ("@ALLOW_RUNC@", allow_runc),
    ):
        text = text.replace(name, value)
    return text


def bundle() -> bytes:
    """The same bytes for the same sources: names in order, no times, no owners. Anybody may ask for it: it is made once, also
    where many ask first at the same time."""
    with _MAKING:
        return _made_bundle()


@lru_cache(maxsize=1)
def _made_bundle() -> bytes:
    unpacked = io.BytesIO()
    with tarfile.open(fileobj=unpacked, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(_sources().items()):
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mode = 0o755 if path.parent.name == "scripts" else 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return gzip.compress(unpacked.getvalue(), mtime=0)


def _sources() -> dict[str, Path]:
    """By the name in the repository."""
    files = {name: shipped_root() / name for name in _FILES}
    missing = [name for name, path in files.items() if not path.exists()]
    if missing:
        raise UnavailableError(
            f"Machines get this installation's sources, but {missing[0]} is missing here. Install Moorage's "
            "own package, or run it from a checkout."
        )
    found = {
        f"src/{path.relative_to(_CODE).as_posix()}": path
        for package in _PACKAGES
        for path in (_CODE / package).rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not _NOT_FOR_MACHINES.intersection(path.parents)
    }
    return files | found
