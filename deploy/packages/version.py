"""Which version a package is of: that of the tag, else one before the next."""

import re
import subprocess
from pathlib import Path

_TAG = re.compile(r"v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)")


def version_of(repository: Path, written: str) -> str:
    """`written`: in `pyproject.toml`, which is the next one to be tagged."""
    return chosen(_git(repository, "tag", "--points-at", "HEAD").split(), written, _distance(repository))


def chosen(tags: list[str], written: str, distance: str) -> str:
    """`v1.2.0` is 1.2.0. Without a tag, `0.1.0` is on its way: `0.1.0.dev412+g2024754`, which every tool sorts before it."""
    tagged = [match[1] for tag in tags if (match := _TAG.fullmatch(tag))]
    if len(tagged) > 1:
        raise ValueError(f"this commit is tagged as several versions: {', '.join(tagged)}")
    return tagged[0] if tagged else f"{written}.dev{distance}"


def debian(version: str, python: str) -> str:
    """A pre-release sorts before its release with `~`. One package is for one Python: `0.1.0-1~python3.11`."""
    upstream = re.sub(r"\.?(dev|a|b|rc)(?=\d)", r"~\1", version, count=1)
    return f"{upstream}-1~python{python}"


def _distance(repository: Path) -> str:
    count, commit = (
        _git(repository, "rev-list", "--count", "HEAD"),
        _git(repository, "rev-parse", "--short=8", "HEAD"),
    )
    return f"{count}+g{commit}" if count else "0"


def _git(repository: Path, *arguments: str) -> str:
    """Empty in a copy without its history."""
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""
