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
from functools import lru_cache
from pathlib import Path

import moorage
from moorage.kit.errors import UnavailableError

_ROOT = Path(moorage.__file__).parents[2]
_FILES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "requirements-run.lock",
    "requirements-setup.lock",
    "scripts/setup",
)
_FOLDERS = ("src/moorage", "src/moorage_cli")
_TEMPLATE = Path(__file__).with_name("join.sh")
_MAKING = threading.Lock()


def join_command(base_url: str, script: str, token: str) -> str:
    """One line. The file is one of its own, so that nobody else on the machine can put another in its place; and the token is
    no argument, which anybody there could read."""
    url = shlex.quote(f"{base_url}/api/v1/machines/join.sh")
    digest = hashlib.sha256(script.encode()).hexdigest()
    return (
        f"""f=$(mktemp) && curl --proto '=https' --tlsv1.2 -fsS {url} -o "$f" && """
        f'echo "{digest}  $f" | sha256sum --check --quiet && printf %s {token} | sudo sh "$f"'
    )


@lru_cache(maxsize=4)
def join_script(base_url: str) -> str:
    text = _TEMPLATE.read_text()
    for name, value in (("@BASE_URL@", base_url), ("@BUNDLE_SHA256@", hashlib.sha256(bundle()).hexdigest())):
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
        for path in _sources():
            entry = tarfile.TarInfo(str(path.relative_to(_ROOT)))
            entry.size = path.stat().st_size
            entry.mode = 0o755 if path.parent.name == "scripts" else 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)
    return gzip.compress(unpacked.getvalue(), mtime=0)


def _sources() -> list[Path]:
    files = [_ROOT / name for name in _FILES]
    missing = [path.name for path in files if not path.exists()]
    if missing:
        raise UnavailableError(
            f"Machines are given this installation's sources, and it does not run from a source tree: {missing[0]} is "
            "not there. Run Moorage from a checkout to add machines."
        )
    found = [
        path
        for folder in _FOLDERS
        for path in (_ROOT / folder).rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and (_ROOT / "src/moorage/console/dist") not in path.parents
    ]
    return sorted([*files, *found])
