"""A machine's whole life, for real: added, joined from behind a router, active, its key renewed, lost, back, gone."""

import json
import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.kit.errors import MoorageError
from moorage.machines.on_machine.commands import _join, _leave
from moorage.machines.on_machine.files import MachineFiles
from moorage.machines.on_machine.installation import Installation
from moorage.machines.on_machine.tunnel import MachineTunnel
from moorage.tunnel.addresses import DOOR_PORT, NODE_PORT
from moorage.tunnel.interface import take_down_all
from moorage.tunnel.keys import public_key_of
from tests.tunnel.installation import URL, InstallationInPlace, installed
from tests.tunnel.places import Place, answers, listen
from tests.tunnel.town import HUB_ADDRESS, Town

ROOT = Path(__file__).parents[2]


@pytest.fixture(name="installation")
def installation_fixture(town: Town, short_folder: Path, database_dsn: str) -> Iterator[InstallationInPlace]:
    made = installed(town.hub.place, short_folder, database_dsn)
    yield made
    made.place.do(take_down_all(made.settings.run_dir, made.settings.log_dir))
    made.end()


def on_machine(installation: InstallationInPlace, folder: Path) -> MachineFiles:
    files = MachineFiles(folder / "etc")
    files.prepare()
    return files


def tunnel_of(installation: InstallationInPlace, files: MachineFiles, folder: Path) -> MachineTunnel:
    known = files.membership()
    speaks = Installation(URL, known["id"], files.secrets()["secret"], str(installation.certificate))
    # Both ends are on this one machine, where `wg` finds them by their names.
    name = "mwg-" + folder.name[-8:].replace("_", "x")
    return MachineTunnel(files, speaks, folder / "run", folder / "log", name)


def name_engine(files: MachineFiles, docker_host: str) -> None:
    """As an operator does whose engine listens elsewhere."""
    with files.node_settings.open("a") as settings:
        settings.write(f'docker_host = "{docker_host}"\n')


@pytest.mark.long
def test_a_life(town: Town, installation: InstallationInPlace, short_folder: Path, docker_host: str) -> None:
    assert "moorwg" not in town.hub.place.sh("ip link"), "without a machine there is no tunnel"
    installation.look()
    assert "moorwg" not in town.hub.place.sh("ip link")
    added = installation.ask("POST", "/operator/machines", {}).json()
    installation.look()
    behind = town.places["behind"]
    files = on_machine(installation, short_folder)
    speaks = Installation(URL, ca_file=str(installation.certificate))
    name = behind.do(_join(files, speaks, added["token"]))
    assert behind.do(_join(files, speaks, "a second run asks nothing")) == name
    assert "credential" not in json.loads((files.folder / "secrets.json").read_text())
    assert {path.name: path.stat().st_mode & 0o077 for path in files.folder.iterdir()} == {
        "membership.json": 0o044,
        "node.toml": 0o044,
        "secrets.json": 0,
        "tunnel.key": 0,
    }
    tunnel = tunnel_of(installation, files, short_folder)
    behind.do(tunnel.ensure())
    installation.look()
    assert installation.machine(added["id"])["state"] == "joining", "nobody answers there yet"
    node = behind.do(listen(NODE_PORT, files.membership()["address"]))
    behind.do(tunnel.begin_anew())
    _becomes(installation, added["id"], "active")
    assert behind.do(tunnel.is_open()), "the pull proxy is behind the door"

    behind.do(tunnel.look())
    young = files.private_key()
    os.utime(files.folder / "tunnel.key", (0, 0))
    behind.do(tunnel.look())
    assert files.private_key() != young, "an old key is replaced without being asked"
    installation.look()
    behind.do(tunnel.begin_anew())
    _becomes(installation, added["id"], "active")
    assert behind.do(answers(HUB_ADDRESS, DOOR_PORT, within_s=15))

    # A machine that lost its power after the installation had heard of its new key.
    lost_with_power = files.new_private_key()
    installation.let_a_minute_pass()
    behind.do(tunnel.installation.renew_key(public_key_of(lost_with_power)))
    installation.look()
    restarted = tunnel_of(installation, files, short_folder)
    behind.do(restarted.look())
    assert files.private_key() == lost_with_power
    behind.do(restarted.begin_anew())
    assert behind.do(answers(HUB_ADDRESS, DOOR_PORT, within_s=15))

    installation.ask("POST", f"/machines/{added['id']}/pause")
    behind.loop.call_soon_threadsafe(node.close)
    _becomes(installation, added["id"], "lost")
    installation.let_a_minute_pass()
    installation.look()
    behind.do(listen(NODE_PORT, files.membership()["address"]))
    _becomes(installation, added["id"], "paused")
    installation.let_a_minute_pass()
    installation.look()

    with pytest.raises(
        MoorageError, match=r"Cannot end the installation.* Start Docker and run `moor-node leave` again"
    ):
        behind.do(_leave(files, tunnel, force=False))
    assert files.is_joined, "the next run ends them"
    name_engine(files, docker_host)
    assert behind.do(_leave(files, tunnel, force=False)) == 0
    assert list(files.folder.iterdir()) == []
    assert installation.machine(added["id"])["state"] == "removed"
    installation.look()
    assert "moorwg" not in town.hub.place.sh("ip link"), "the last one took the tunnel with it"
    assert not behind.do(answers(HUB_ADDRESS, DOOR_PORT))
    subjects = [mail["subject"] for mail in installation.ask("GET", "/operator/outbox").json()["items"]]
    assert subjects[::-1] == [
        f"The machine {name} {does}"
        for does in ("is ready", "is paused", "does not answer", "answers again", "has left")
    ]


def _becomes(installation: InstallationInPlace, machine_id: str, state: str) -> None:
    deadline_s = time.monotonic() + 60
    while installation.machine(machine_id)["state"] != state:
        assert time.monotonic() < deadline_s, installation.machine(machine_id)
        installation.look()


@pytest.mark.long
def test_one_that_was_removed_joins_anew(
    town: Town, installation: InstallationInPlace, short_folder: Path, docker_host: str
) -> None:
    """By the line of its replacement. Until then it would have said that it is what it was, and nobody would have come."""
    first = installation.ask("POST", "/operator/machines", {"name": "rack-7"}).json()
    installation.look()
    near = town.places["near"]
    files = on_machine(installation, short_folder)
    speaks = Installation(URL, ca_file=str(installation.certificate))
    near.do(_join(files, speaks, first["token"]))
    key, secrets = files.private_key(), files.secrets()
    installation.ask("DELETE", f"/machines/{first['id']}")
    with pytest.raises(MoorageError, match="no longer works"):
        near.do(_join(files, speaks, first["token"]))

    second = installation.ask("POST", "/operator/machines", {"name": "rack-7"}).json()
    assert near.do(_join(files, speaks, second["token"])) == "rack-7"
    assert files.membership()["id"] == second["id"]
    assert files.private_key() != key
    assert files.secrets() != secrets
    assert near.do(_join(files, speaks, "a second run asks for nothing")) == "rack-7"
    assert installation.machine(second["id"])["joined_at"] is not None

    name_engine(files, docker_host)
    near.do(_leave(files, tunnel_of(installation, files, short_folder), force=False, copied=True))
    assert not files.is_joined
    assert installation.machine(second["id"])["state"] == "joining", (
        "a copy does not speak for what it was copied from"
    )


@pytest.mark.long
def test_what_a_restored_installation_does_not_know_any_more(
    town: Town, installation: InstallationInPlace, short_folder: Path
) -> None:
    """First the machine's key, which was renewed since the backup; then the machine itself, as after a removal."""
    behind, files = town.places["behind"], on_machine(installation, short_folder)
    speaks = Installation(URL, ca_file=str(installation.certificate))
    added = installation.ask("POST", "/operator/machines", {"name": "rack-7"}).json()
    installation.look()
    behind.do(_join(files, speaks, added["token"]))
    tunnel = tunnel_of(installation, files, short_folder)
    behind.do(tunnel.ensure())
    _opens(installation, tunnel, behind)

    key = files.private_key()
    installation.know_an_older_key(added["id"])
    installation.look()
    behind.do(tunnel._redial())
    assert not behind.do(tunnel.is_open(1.0))
    _opens(installation, tunnel, behind)
    assert files.private_key() == key, "it was known by it before"

    removed = installation.ask("DELETE", f"/machines/{added['id']}")
    assert removed.status_code == 204, removed.text
    again = installation.ask("POST", "/operator/machines", {"name": "rack-7"}).json()
    installation.look()
    behind.do(_join(files, speaks, again["token"]))
    assert files.membership()["id"] == again["id"], "the command is good for what it was printed for"
    renewed = tunnel_of(installation, files, short_folder)
    behind.do(renewed.ensure())
    _opens(installation, renewed, behind)
    behind.do(renewed.take_down())


def _opens(installation: InstallationInPlace, tunnel: MachineTunnel, place: Place) -> None:
    deadline_s = time.monotonic() + 60
    while not place.do(tunnel.is_open()):
        assert time.monotonic() < deadline_s, "the tunnel does not open"
        place.do(tunnel.look())
        installation.look()


def test_a_refused_join_says_why(town: Town, installation: InstallationInPlace, short_folder: Path) -> None:
    files = on_machine(installation, short_folder)
    speaks = Installation(URL, ca_file=str(installation.certificate))
    with pytest.raises(MoorageError, match="older than 30 minutes"):
        town.places["near"].do(_join(files, speaks, "moor_join_wrong"))
    with pytest.raises(MoorageError, match="Cannot reach"):
        town.places["near"].do(_join(files, Installation("https://10.90.0.2:1"), "moor_join_wrong"))
    with pytest.raises(MoorageError, match="Cannot reach"):  # a certificate that nobody vouches for
        town.places["near"].do(_join(files, Installation(URL), "moor_join_wrong"))
    with pytest.raises(MoorageError, match="not an https"):
        town.places["near"].do(_join(files, Installation("http://10.90.0.2"), "moor_join_wrong"))
    assert not files.is_joined


class Script:
    """The join script on a machine whose folders are a test's."""

    def __init__(
        self, place: Place, installation: InstallationInPlace, folder: Path, name: str = "join.sh"
    ) -> None:
        self.place, self.folder = place, folder
        answer = installation.ask("GET", f"/machines/{name}")
        self.path = folder / "join.sh"
        self.path.write_text(answer.text)
        tools = folder / "tools"
        tools.mkdir()
        for name in ("docker", "apt-get", "systemctl"):
            (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{folder}/calls\n')
            (tools / name).chmod(0o755)
        self.environment = {
            "PATH": f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin",
            "MOORAGE_ROOT": str(folder / "opt"),
            "MOORAGE_SETTINGS": str(folder / "etc"),
            "MOORAGE_SERVICES": str(folder / "services"),
            "MOORAGE_COMMANDS": str(folder / "bin"),
            "MOORAGE_CA_FILE": str(installation.certificate),
            "CURL_CA_BUNDLE": str(installation.certificate),
        }

    def run(self, *arguments: str, token: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["setsid", *self._command(*arguments)],  # no terminal
            input=token,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def run_on_a_terminal(self, answer: bytes, token: str) -> str:
        """As the printed command does it."""
        pid, terminal = pty.fork()
        if pid == 0:
            command = f"printf %s {token} | {shlex.join(self._command())}"
            os.execve("/bin/sh", ["sh", "-c", command], self.environment)
        said, deadline_s = b"", time.monotonic() + 60
        while time.monotonic() < deadline_s:
            if select.select([terminal], [], [], 1)[0]:
                try:
                    said += os.read(terminal, 4096)
                except OSError:
                    break
            if b"[y/N]" in said and answer:
                os.write(terminal, answer)
                answer = b""
        os.waitpid(pid, 0)
        return said.decode()

    def have_moorage_installed(self) -> None:
        """What `scripts/setup` would make, which takes minutes: this version's own environment."""
        here = next(line for line in self.path.read_text().splitlines() if line.startswith("bundle_sha256="))
        folder = self.folder / "opt" / here.split("'")[1][:16]
        shutil.rmtree(folder, ignore_errors=True)
        (folder / ".venv/bin").mkdir(parents=True)
        (folder / ".venv/bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (folder / ".venv/bin/python").chmod(0o755)
        (folder / ".complete").touch()

    def leave(self) -> subprocess.CompletedProcess[str]:
        program = [
            str(self.folder / "opt/current/.venv/bin/python"),
            "-m",
            "moorage.machines.on_machine",
            "leave",
        ]
        folders = ["--folder", str(self.folder / "etc"), "--ca-file", self.environment["MOORAGE_CA_FILE"]]
        return subprocess.run(
            ["ip", "netns", "exec", self.place.name, *program, *folders],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def _command(self, *arguments: str) -> list[str]:
        return ["ip", "netns", "exec", self.place.name, "/bin/sh", str(self.path), *arguments]


def test_an_owner_reads_what_lending_means_and_may_say_no(
    town: Town, installation: InstallationInPlace, short_folder: Path
) -> None:
    script = Script(town.places["near"], installation, short_folder, "join-community.sh")
    said = " ".join(script.run_on_a_terminal(b"n\n", f"moor_join_{'a' * 26}").split())
    for words in (
        "You lend this machine.",
        "inside a sandbox (gVisor)",
        "your public address",
        "Nothing was changed.",
    ):
        assert words in said, said
    assert said.index("You lend this machine.") < said.index("Go on? [y/N]")
    assert not (short_folder / "calls").exists()
    assert not (short_folder / "etc").exists()


@pytest.mark.long
def test_the_script(
    town: Town, installation: InstallationInPlace, short_folder: Path, docker_host: str
) -> None:
    """Each failure says its step and why; the same command repairs it; what it made can be undone."""
    script = Script(town.places["near"], installation, short_folder)
    refused = script.run("--yes", token="not-a-token")
    assert (refused.returncode, "the token that `moor machines add` prints" in refused.stderr) == (1, True)
    added = installation.ask("POST", "/operator/machines", {"name": "rack-9"}).json()
    token = added["token"]
    mistaken = script.run(token)
    assert (mistaken.returncode, "It knows --yes." in mistaken.stderr) == (1, True), mistaken.stderr
    unseen = script.run(token=token)
    assert (unseen.returncode, "There is no terminal to ask on" in unseen.stderr) == (1, True), unseen.stderr
    said = script.run_on_a_terminal(b"n\n", token)
    assert "Nothing was changed." in said, said
    assert not (short_folder / "opt").exists()

    distrusted = script.run("--yes", token=token, CURL_CA_BUNDLE="/dev/null")
    assert distrusted.returncode == 1
    assert "This step failed: fetch Moorage" in distrusted.stderr, distrusted.stderr
    script.have_moorage_installed()
    outdated, token = token, installation.ask("POST", f"/machines/{added['id']}/command").json()["token"]
    refused = script.run("--yes", token=outdated)
    assert refused.returncode == 1
    assert "This command works no longer." in refused.stderr, refused.stderr
    assert "run the same command again" not in refused.stderr, "that would help nobody"
    without_hub = script.run("--yes", token=token)
    assert without_hub.returncode == 1
    assert "The installation's end of the tunnel is not open." in without_hub.stderr, without_hub.stderr
    assert "This step failed: join" in without_hub.stderr
    installation.look()
    done = script.run("--yes", token=token)
    assert done.returncode == 0, done.stderr
    again = script.run("--yes", token=token)
    assert again.returncode == 0, again.stderr
    assert installation.machine(added["id"])["name"] == "rack-9"
    units = sorted(path.name for path in (short_folder / "services").iterdir())
    assert units == ["moorage-node.service", "moorage-tunnel.service"]
    assert "serve --settings" in (short_folder / "services/moorage-node.service").read_text()
    assert token not in (short_folder / "etc/membership.json").read_text()

    name_engine(MachineFiles(short_folder / "etc"), docker_host)
    left = script.leave()
    assert left.returncode == 0, left.stderr
    assert "This machine has left. Installed packages stay." in left.stdout
    assert installation.machine(added["id"])["state"] == "removed"
    assert list((short_folder / "etc").iterdir()) == []
