"""Moorage's packages on fresh Debians: installed without a network, booted again, killed, backed up, taken off, restored, upgraded.

`make prove-packages` runs it, as root.
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.entrypoints.debian_rootfs import ensure_packages
from tests.service.fresh import Fresh, fresh_debian, made_archive, until
from tests.service.newer_package import Changes, newer_package

REPOSITORY = Path(__file__).parents[2]
BASE = Path(os.environ.get("MOORAGE_TEST_BASE") or REPOSITORY / "build/service-proof")
RELEASE = os.environ.get("MOORAGE_TEST_RELEASE") or "bookworm"
ROLES = ("gateway", "api", "controller")
EXAMPLE = (
    "$(echo /opt/moorage/current/lib/python3.*/site-packages/moorage/shipped/examples/chat/container.toml)"
)

pytestmark = [pytest.mark.proof, pytest.mark.timeout(3600)]


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[Fresh]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:40]
    with fresh_debian(made_archive(BASE, RELEASE), BASE / name, name) as machine:
        # The example is made from Debian's packages, which cannot be downloaded there.
        cache = BASE / "cache"
        cache.mkdir(exist_ok=True)
        packages = asyncio.run(ensure_packages(cache, print))
        version = re.search(r'VERSION_ID="(\d+)"', (machine.root / "etc/os-release").read_text())
        assert version is not None
        # Under the name that this release looks for; what is in a container may be of another.
        named = re.sub(r"-\d+-", f"-{version[1]}-", packages.name)
        shutil.copytree(packages, machine.root / "var/lib/moorage/cache" / named)
        yield machine


def package(pattern: str) -> Path:
    (found,) = (REPOSITORY / "build/packages").glob(pattern)
    return found


def install_deb(machine: Fresh) -> None:
    python = machine.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    shutil.copy(package(f"moorage_*~python{python}_*.deb"), machine.root / "root/moorage.deb")
    machine.run("dpkg", "--install", "/root/moorage.deb")


def installed(machine: Fresh) -> str:
    said = machine.run("moor", "install", "--yes")
    assert "Moorage is ready." in said
    return said


def answered(machine: Fresh) -> bool:
    """A chat completion through the gateway."""
    return "Harbour pilot" in machine.run("moor", "chat", "chat", "hello", check=False)


def deploy(machine: Fresh) -> None:
    until(
        lambda: machine.succeeds("docker", "image", "inspect", "local/chat:latest"),
        "the example is built",
        180,
    )
    machine.run("moor", "login")
    machine.run("sh", "-c", f"moor deploy -f {EXAMPLE}")
    until(lambda: answered(machine), "the example answers", 60)


def main_pid(machine: Fresh, unit: str) -> int:
    return int(machine.run("systemctl", "show", "--property=MainPID", "--value", unit))


def test_a_package_from_nothing_to_nothing(machine: Fresh) -> None:
    install_deb(machine)
    said = installed(machine)
    assert "Write /etc/systemd/system" not in said, "the package brings the units"
    assert "Nothing needs to change." in machine.run("moor", "install", "--yes")
    deploy(machine)
    owners = machine.run("ps", "-eo", "user,comm")
    assert re.search(r"^moorage +(postgres|haproxy)", owners, re.MULTILINE)
    failed = machine.run("systemctl", "--failed", "--no-legend", "--plain")
    assert "moorage" not in failed

    # A role that is killed comes back by itself; HAProxy serves on while the gateway's does.
    haproxy = machine.run("pgrep", "--oldest", "haproxy")
    for role in ROLES:
        unit = f"moorage-{role}.service"
        before = main_pid(machine, unit)
        machine.run("kill", "-KILL", str(before))
        until(
            lambda unit=unit, before=before: main_pid(machine, unit) not in (0, before), f"{role} is back", 30
        )
    until(lambda: answered(machine), "it answers after its roles were killed", 120)
    assert machine.run("pgrep", "--oldest", "haproxy") == haproxy
    # So does the one that keeps the database, which goes on meanwhile.
    postgres = machine.run("pgrep", "--oldest", "postgres")
    before = main_pid(machine, "moorage.service")
    machine.run("kill", "-KILL", str(before))
    until(lambda: main_pid(machine, "moorage.service") not in (0, before), "the keeper is back", 60)
    until(lambda: answered(machine), "it answers after the keeper was killed", 120)
    assert machine.run("pgrep", "--oldest", "postgres") == postgres

    machine.reboot()
    until(lambda: answered(machine), "it answers after a boot", 180)

    # What was changed by hand is repaired.
    machine.run("rm", "/var/lib/moorage/moorage.toml")
    machine.run("systemctl", "disable", "--now", "moorage-api.service", "moorage-backup.timer")
    repaired = installed(machine)
    assert "Let /var/lib/moorage/moorage.toml lead to" in repaired
    assert "Start at boot: moorage-api.service, moorage-backup.timer." in repaired
    assert machine.succeeds("systemctl", "is-active", "moorage-api.service")

    # `systemctl stop` ends all of it but users' containers.
    machine.run("systemctl", "stop", "moorage")
    left = machine.run("ps", "-eo", "comm")
    assert not re.search("^(haproxy|postgres|moor)$", left, re.MULTILINE), left
    assert machine.run("docker", "ps", "--quiet").strip() != ""
    machine.run("systemctl", "start", "moorage")
    until(lambda: answered(machine), "it answers after a start", 120)

    # The daily backup, by its unit; then everything is lost but that file and the recovery key.
    machine.run("systemctl", "start", "moorage-backup.service")
    assert "moorage-backup.timer" in machine.run("systemctl", "list-timers", "--all")
    (backup,) = (machine.root / "var/backups/moorage").glob("moorage-*.tar.age")
    shutil.copy(backup, machine.root / "root/kept.tar.age")
    shutil.copy(machine.root / "etc/moorage/recovery-key", machine.root / "root/kept-key")
    token = (machine.root / "var/lib/moorage/operator-key").read_text()
    keys = (machine.root / "var/lib/moorage/secret-keys").read_text()
    removed = machine.run("moor", "uninstall", "--data", "remove", "--yes")
    assert "Stop and remove users' containers." in removed
    for path in ("var/lib/moorage", "var/backups/moorage", "etc/moorage/moorage.toml"):
        assert not (machine.root / path).exists(), path
    assert machine.run("docker", "ps", "--all", "--quiet").strip() == ""
    assert not re.search("^(haproxy|postgres|moor)$", machine.run("ps", "-eo", "comm"), re.MULTILINE)

    # As on another machine.
    restored = machine.run("moor", "restore", "/root/kept.tar.age", "--key", "/root/kept-key")
    assert "The database is restored" in restored
    said = installed(machine)
    assert "Move /var/lib/moorage/moorage.toml to /etc/moorage/moorage.toml." in said
    assert (machine.root / "var/lib/moorage/operator-key").read_text() == token
    assert (machine.root / "var/lib/moorage/secret-keys").read_text() == keys
    assert "chat" in machine.run("moor", "list"), "its rows are back, and the token of before"

    kept = machine.run("moor", "uninstall", "--data", "keep", "--yes")
    assert "/var/lib/moorage, /var/backups/moorage and /etc/moorage stay." in kept
    machine.run("dpkg", "--purge", "moorage")
    assert (machine.root / "var/lib/moorage/secret-keys").read_text() == keys
    assert not machine.succeeds("which", "moor")
    print(f"{RELEASE}: installed, killed, booted again, stopped, backed up, removed, restored; 0 rows lost")


def try_out(machine: Fresh, moor: str) -> None:
    """`moor up` in a terminal, ended by Ctrl-C: it leaves its data to the service."""
    machine.run("systemd-run", "--quiet", "--unit=terminal", "--property=KillMode=mixed", moor, "up")
    until(
        lambda: "Moorage is ready." in machine.run("journalctl", "-u", "terminal"), "`moor up` is ready", 240
    )
    assert "Stop it first" in machine.run(moor, "install", "--yes", check=False)
    machine.run("systemctl", "kill", "--kill-whom=main", "--signal=SIGINT", "terminal")
    until(lambda: not machine.succeeds("systemctl", "is-active", "terminal"), "it has ended", 60)
    assert "Stopped. Users' containers keep running" in machine.run("journalctl", "-u", "terminal")
    assert not re.search("^(haproxy|postgres|moor)$", machine.run("ps", "-eo", "comm"), re.MULTILINE)


def test_a_wheel_in_an_environment_of_its_own(machine: Fresh) -> None:
    """As `pip install` does where an index is; here, from a folder with what the lock names."""
    python = machine.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    wheels = machine.root / "root/wheels"
    lock = REPOSITORY / "requirements-run.lock"
    fetch = ["-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    pip = REPOSITORY / ".venv/tools/bin/python"
    subprocess.run(
        [str(pip), *fetch, "--python-version", python, "--dest", str(wheels), "-r", str(lock)], check=True
    )
    wheel = package("moorage-*.whl")
    shutil.copy(wheel, wheels)
    environment = "/opt/moorage/versions/try"
    machine.run("python3", "-m", "venv", environment)
    machine.run(
        f"{environment}/bin/pip", "install", "--quiet", "--no-index", "--find-links", "/root/wheels",
        f"/root/wheels/{wheel.name}",
    )  # fmt: skip
    try_out(machine, f"{environment}/bin/moor")
    said = machine.run(f"{environment}/bin/moor", "install", "--yes")
    assert "Write /etc/systemd/system/moorage.service." in said
    assert "Let /usr/local/bin/moor lead to /opt/moorage/current/bin/moor." in said
    assert "Nothing needs to change." in machine.run("moor", "install", "--yes")
    for path, words in (
        ("/", "<title>"),
        ("/docs/", "Moorage handbook"),
        ("/docs/install", "Make it a service"),
    ):
        page = machine.run("curl", "-sS", "--fail", "-H", "Accept: text/html", f"http://127.0.0.1:8080{path}")
        assert words in page, path
    deploy(machine)
    # What was unpacked for everybody to write to is nothing to run as root.
    machine.run("chmod", "o+w", f"{environment}/bin")
    refused = machine.run("moor", "install", "--yes", check=False)
    assert "users other than root may write" in refused
    machine.run("chmod", "o-w", f"{environment}/bin")
    machine.run("moor", "uninstall", "--data", "keep", "--yes")
    left = list((machine.root / "etc/systemd/system").rglob("moorage*"))
    assert left == []
    assert (machine.root / "var/lib/moorage/secret-keys").exists()
    print(f"{RELEASE}: from the wheel, a service, the console, the handbook, a completion, and off again")


UPGRADES = 20
_ASK = """\
import json, os, sys, urllib.request

body = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()
headers = {"Authorization": "Bearer " + sys.argv[2], "Content-Type": "application/json"}
while True:
    try:
        asked = urllib.request.Request(sys.argv[1] + "/api/v1/chat/completions", body, headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            word = "ok" if b"Harbour pilot" in answer.read() else "other"
    except Exception as exc:
        word = repr(exc)
    with open("/root/answers", "a") as answers:
        answers.write(word + "\\n")
"""
_LAST = max(
    path.name for path in (REPOSITORY / "src/moorage/entrypoints/migrations/versions").glob("[0-9]*.py")
)[:4]
_MIGRATION = """\
from alembic import op

revision, down_revision = "{revision}", "{before}"
branch_labels = depends_on = None


def upgrade() -> None:
    op.execute("CREATE TABLE doors_{revision} (id text)")
    {more}


def downgrade() -> None:
    op.execute("DROP TABLE doors_{revision}")
"""


def migration(revision: str, before: str, more: str = "pass") -> Changes:
    name = f"entrypoints/migrations/versions/{revision}_doors.py"
    return {name: ("", _MIGRATION.format(revision=revision, before=before, more=more))}


def under_load(machine: Fresh) -> None:
    """Four that ask one after the other, in the machine, until it ends."""
    key = machine.run("moor", "keys", "create", "--name", "load").strip().splitlines()[-1]
    endpoint = machine.run(
        "sh",
        "-c",
        "moor describe chat --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"endpoint_url\"])'",
    )
    (machine.root / "root/ask.py").write_text(_ASK)
    for number in range(4):
        machine.run(
            "systemd-run", "--quiet", f"--unit=load{number}", "python3", "/root/ask.py", endpoint.strip(), key
        )


def answers(machine: Fresh) -> list[str]:
    return (machine.root / "root/answers").read_text().splitlines()


def rows(machine: Fresh) -> str:
    """What people own; the machine's own records go on."""
    return "".join(
        machine.run("moor", *words, "--json") for words in (("list",), ("keys", "list"), ("versions", "chat"))
    )


def runs(machine: Fresh) -> set[str]:
    units = ("moorage.service", *(f"moorage-{role}.service" for role in ROLES))
    pids = [main_pid(machine, unit) for unit in units]
    return {machine.run("sh", "-c", f"tr '\\0' ' ' </proc/{pid}/cmdline").split("/bin/")[0] for pid in pids}


def test_upgrades_under_load(machine: Fresh) -> None:
    """Twenty there and back between two versions; then each way in which one fails."""
    install_deb(machine)
    installed(machine)
    deploy(machine)
    before = (machine.root / "opt/moorage/current").readlink()
    python = machine.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    first = package(f"moorage_*~python{python}_*.deb")
    folder = machine.root.parent

    def bring(version: str, changes: Changes) -> str:
        shutil.move(newer_package(first, folder, version, changes), machine.root / f"root/{version}.deb")
        return f"/root/{version}.deb"

    owned = rows(machine)
    under_load(machine)
    until(lambda: len(answers(machine)) > 20, "it is asked", 60)
    good = bring("9.0.0", migration("9001", _LAST))
    for number in range(UPGRADES):
        there = number % 2 == 0
        words = (good if number == 0 else "9.0.0") if there else before.name
        said = machine.run("moor", "upgrade", words, "--yes", *([] if there else ["--older"]))
        assert "Moorage is at" in said
        assert runs(machine) == {"/opt/moorage/versions/9.0.0" if there else str(before)}
    assert runs(machine) == {str(before)}

    failing: dict[str, Changes] = {
        "9.1.0": {
            **migration("9001", _LAST),
            **migration("9002", "9001", 'op.execute("CREATE TABLE no")'),
        },
        "9.2.0": {"entrypoints/controller_role.py": ("async def serve(settings: Settings) -> None:\n", "async def serve(settings: Settings) -> None:\n    raise RuntimeError\n")},
        "9.3.0": {"entrypoints/health.py": ("            await require_expected_schema(session)\n", "            raise RuntimeError\n")},
    }  # fmt: skip
    for version, changes in failing.items():
        said = machine.run("moor", "upgrade", bring(version, changes), "--yes", "--within", "60", check=False)
        assert "runs again. The upgrade failed" in said, said
        assert runs(machine) == {str(before)}, version
    # Killed in the middle; then off in the middle.
    for number, (unit, how) in enumerate((("moorage-gateway", "kill"), ("moorage-controller", "off"))):
        name = f"upgrade{number}"
        machine.run("systemd-run", "--quiet", f"--unit={name}", "moor", "upgrade", "9.0.0", "--yes")
        until(
            lambda name=name, unit=unit: f"]: Restart {unit}" in machine.run("journalctl", "-u", name),
            unit,
            300,
        )
        machine.run("systemctl", "kill", "--signal=SIGKILL", name)
        if how == "off":
            failed = {one for one in answers(machine) if one != "ok"}
            assert failed == set(), failed
            machine.stop()
            machine.start()
        journal = machine.root / "opt/moorage/upgrade.json"
        until(lambda journal=journal: not journal.exists(), "somebody went back", 300)
        until(lambda: runs(machine) == {str(before)}, "all of it runs the version before", 300)
    until(lambda: answered(machine), "it answers after a boot in the middle", 180)
    assert rows(machine) == owned
    print(
        f"{RELEASE}: {UPGRADES} upgrades under load, {len(answers(machine))} requests, 0 failed; each failure went back; 0 rows lost"
    )
