"""What is fetched from elsewhere is what somebody looked at: every install names hashes, and none runs a package's script."""

import re
import subprocess
import sys
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
        "bench", "console", "dev", "handbook", "models", "run", "setup",
    ]  # fmt: skip
    for lock in locks:
        pinned = re.split(r"\n(?=[a-z0-9])", lock.read_text())[1:]
        assert all("--hash=sha256:" in one for one in pinned), lock.name


def test_no_package_of_the_console_runs_a_script_while_it_is_installed() -> None:
    installs = commands(r"\bci --|npm\S* (ci|install)")
    assert len(installs) == 1
    assert "--ignore-scripts" in installs[0]


def test_uv_trusts_what_the_machine_trusts(tmp_path: Path) -> None:
    """Behind a company's proxy, or with a package index of its own, uv's certificates are not enough."""
    stand_in = tmp_path / "bin/uv"
    stand_in.parent.mkdir()
    stand_in.write_text(
        f"""#!/bin/sh
echo "$1: $UV_SYSTEM_CERTS $UV_NATIVE_TLS" >> {tmp_path}/asked
if [ "$1" = venv ]; then mkdir -p .venv/bin && ln -s {sys.executable} .venv/bin/python; fi
"""
    )
    stand_in.chmod(0o755)
    for name in ("scripts/setup", "requirements-run.lock"):
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes((REPOSITORY / name).read_bytes())
    (tmp_path / "copy/src").mkdir()
    paths = {"PATH": f"{stand_in.parent}:/usr/bin:/bin", "MOORAGE_PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", "scripts/setup"],
        cwd=tmp_path / "copy",
        env=paths,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text() == "venv: 1 1\npip: 1 1\npip: 1 1\n"


def test_whatever_else_calls_uv_does_so_too() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    assert re.findall(r"^UV = (\S+) (\S+) \$", makefile, re.MULTILINE) == [
        ("UV_SYSTEM_CERTS=1", "UV_NATIVE_TLS=1")
    ]
    called = [
        path
        for folder in ("src", "scripts", "deploy")
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in ("", ".py")
        and path.is_file()
        and re.search(r"which\(\"uv\"\)|command -v uv", path.read_text(errors="replace"))
    ]
    assert called, "or this looks in the wrong place"
    for path in called:
        assert re.search(r"UV_SYSTEM_CERTS\W+1", path.read_text()), path
