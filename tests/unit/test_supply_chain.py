"""What is fetched from elsewhere is what somebody looked at: every install names hashes, and none runs a package's script."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SCRIPTS = [*sorted((REPOSITORY / "scripts").iterdir()), REPOSITORY / "Makefile"]


def commands(pattern: str) -> list[str]:
    """Lines of our scripts that run it, joined where they go on."""
    found = []
    for script in SCRIPTS:
        for line in script.read_text().replace("\\\n", " ").splitlines():
            if re.search(pattern, line) and not line.strip().startswith(("#", "say", "fail")):
                found.append(line)
    return found


def test_python_packages_come_with_their_hashes() -> None:
    installs = commands(r"pip\S* install|pip install")
    assert len(installs) >= 3, "or this looks in the wrong place"
    for line in installs:
        assert "--require-hashes" in line or "--no-deps --no-build-isolation -e ." in line, line


def test_every_lock_has_a_hash_for_every_package() -> None:
    locks = sorted(REPOSITORY.glob("requirements-*.lock"))
    assert [lock.stem.removeprefix("requirements-") for lock in locks] == [
        "bench", "console", "dev", "models", "run", "setup",
    ]  # fmt: skip
    for lock in locks:
        pinned = re.split(r"\n(?=[a-z0-9])", lock.read_text())[1:]
        assert all("--hash=sha256:" in one for one in pinned), lock.name


def test_no_package_of_the_console_runs_a_script_while_it_is_installed() -> None:
    installs = commands(r"\bci --|npm\S* (ci|install)")
    assert len(installs) == 1
    assert "--ignore-scripts" in installs[0]
