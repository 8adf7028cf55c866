"""A machine of the lab: a network, a root filesystem, processes and a disk of its own, and an operator who runs what he is told to."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.stack import until
from tests.machines.base import trust
from tests.tunnel.places import Place

_BOOT = Path(__file__).with_name("boot.sh")
_ENVIRONMENT = ("env", "-i", "HOME=/root", "LANG=C.UTF-8")
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_JOIN_LIMIT_S = 1500.0
CGROUPS = "moor-lab"


@dataclass
class Machine:
    name: str
    place: Place
    base: Path
    folder: Path
    certificate: str
    """That it has to trust, to reach the installation."""
    first_process: int = 0
    services: dict[str, str] = field(default_factory=dict)
    """What it keeps running, as the join script asked for where there is no systemd."""
    _plug: "subprocess.Popen[bytes] | None" = None
    _cables: frozenset[str] = frozenset()
    """What its network has when it is switched on."""

    def install(self) -> None:
        for part in ("changes", "work", "root", "disk"):
            (self.folder / part).mkdir(parents=True)
        self._cables = frozenset(self._links())
        self.boot()
        trust(Path(f"/proc/{self.first_process}/root"), "installation", self.certificate)
        self.run(f"echo '127.0.1.1 {self.name}' >>/etc/hosts; mkdir -p /etc/docker")
        self.run(f"""echo '{{"cgroup-parent": "/{CGROUPS}/{self.name}"}}' >/etc/docker/daemon.json""")

    def boot(self) -> None:
        assert self._plug is None, f"{self.name} is on"
        own = ("--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child")
        command = ["nsenter", f"--net=/run/netns/{self.place.name}", "unshare", *own, "bash", str(_BOOT)]
        with open(self.folder / "boot.log", "ab") as log:
            self._plug = subprocess.Popen(
                [*command, str(self.base), str(self.folder), self.name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.first_process = until(self._booted, f"{self.name} has booted")
        for name, service in self.services.items():
            self._keep_running(name, service)
        if "dockerd" in self.services:
            self._until_docker_answers()

    def join(self, command: str) -> float:
        """By the line that the operator was given; returns how many seconds it took."""
        began_s = time.monotonic()
        said = self._obey(command)
        if "its engine does not answer" in said:
            # Where there is no systemd, nobody has started the engine that was just installed.
            self.start("dockerd", "dockerd")
            self._until_docker_answers()
            said = self._obey(command)
        assert "Done." in said, f"{self.name} did not join:\n{said}"
        printed = re.search(r"Keep these two running:\n  (.+)\n  (.+)\n", said)
        assert printed is not None, said
        self.start("tunnel", printed[1])
        self.start("node", printed[2])
        return time.monotonic() - began_s

    def start(self, name: str, command: str) -> None:
        self.services[name] = command
        self._keep_running(name, command)

    def kill(self, name: str) -> None:
        """One of its services, with whoever would start it again."""
        for part in ("keeper", "pid"):
            self.run(f"kill -9 $(cat /run/lab-{name}.{part})", check=False)
        until(lambda: not self.is_running(name), f"the {name} of {self.name} has ended")

    def is_running(self, name: str) -> bool:
        return self.run(f"kill -0 $(cat /run/lab-{name}.pid)", check=False).returncode == 0

    def pull_the_plug(self) -> None:
        assert self._plug is not None
        os.kill(self.first_process, signal.SIGKILL)
        self._plug.wait(60)
        self._plug = None
        self._forget_network()

    @property
    def is_on(self) -> bool:
        return self._plug is not None

    def run(
        self, command: str, *, check: bool = True, limit_s: float = 120.0
    ) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            self._inside("bash", "-c", command),
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, f"{self.name}: {command}: {done.stdout}{done.stderr}"
        return done

    def containers(self) -> dict[str, str]:
        """Of its engine, whatever became of them: names and states."""
        listed = self.run("docker ps --all --no-trunc --format '{{.Names}} {{.State}}'").stdout.splitlines()
        return dict(line.split(" ", 1) for line in listed)

    def said(self) -> dict[str, str]:
        """What joining printed, and its services since."""
        logs = [
            self.folder / "boot.log",
            self.folder / "join.log",
            *(self.folder / "changes/var/log").glob("lab-*.log"),
        ]
        return {log.stem: log.read_text() for log in logs if log.exists()}

    def end(self) -> None:
        if self._plug is not None:
            self.pull_the_plug()
        shutil.rmtree(self.folder)

    def _obey(self, command: str) -> str:
        done = self.run(f"{command} --yes 2>&1", check=False, limit_s=_JOIN_LIMIT_S)
        with open(self.folder / "join.log", "a") as log:
            log.write(done.stdout + done.stderr)
        return done.stdout + done.stderr

    def _keep_running(self, name: str, command: str) -> None:
        """As systemd does with `Restart=always` and `RestartSec=2`."""
        started = f"bash -c 'echo $$ >/run/lab-{name}.pid; exec {command}'"
        loop = f"echo $$ >/run/lab-{name}.keeper; while :; do {started}; sleep 2; done >>/var/log/lab-{name}.log 2>&1"
        self.run(f"setsid bash -c {shlex.quote(loop)} </dev/null >/dev/null 2>&1 &")

    def _forget_network(self) -> None:
        """As a kernel that is switched off does. The namespace stays, and would keep bridges with the dead containers' ends on them:
        a new container of the same address was not reached beside those."""
        for link in self._links():
            if link not in self._cables:
                # One that was another's end has gone with it.
                subprocess.run(
                    ["ip", "-n", self.place.name, "link", "delete", link], capture_output=True, check=False
                )
        for table in ("filter", "nat", "mangle", "raw"):
            for what in ("--flush", "--delete-chain"):
                self.place.sh(f"iptables --table {table} {what}")

    def _links(self) -> list[str]:
        return [link["ifname"] for link in json.loads(self.place.sh("ip -json link"))]

    def _until_docker_answers(self) -> None:
        answered = lambda: self.run("docker version", check=False).returncode == 0  # noqa: E731
        until(answered, f"the engine of {self.name} answers", pause_s=0.5)

    def _inside(self, *command: str) -> list[str]:
        enter = (
            "nsenter",
            "--target",
            str(self.first_process),
            "--mount",
            "--net",
            "--pid",
            "--uts",
            "--ipc",
        )
        return [*enter, *_ENVIRONMENT, _PATH, *command]

    def _booted(self) -> int:
        assert self._plug is not None
        assert self._plug.poll() is None, (self.folder / "boot.log").read_text()
        children = Path(f"/proc/{self._plug.pid}/task/{self._plug.pid}/children").read_text().split()
        return int(children[0]) if children and Path(f"/proc/{children[0]}/root/run/booted").exists() else 0
