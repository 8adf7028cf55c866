"""A machine that joined, as far as its processes go: `moor-node` in a network and with folders of its own."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.tunnel.places import Place


@dataclass
class JoinedMachine:
    """Its processes see its network, and folders for WireGuard of their own: both ends are on one machine here."""

    place: Place
    folder: Path
    docker_host: str
    certificate: Path
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def command(self, *arguments: str) -> list[str]:
        private = "for d in /run/wireguard /run/moorage /var/log/moorage; do mkdir -p $d; mount -t tmpfs none $d; done"
        if not (self.folder / "mounts").exists():
            (self.folder / "mounts").touch()
            subprocess.run(["mount", "--bind", self.folder / "mounts", self.folder / "mounts"], check=True)
            subprocess.run(["mount", "--make-private", self.folder / "mounts"], check=True)
            inside = f"{private}; touch {self.folder}/mounted"
            subprocess.run(
                ["unshare", f"--mount={self.folder}/mounts", "sh", "-c", inside],
                check=True,
            )
        return [
            "nsenter",
            f"--net=/run/netns/{self.place.name}",
            f"--mount={self.folder}/mounts",
            *arguments,
        ]

    def node(self, *arguments: str, **environment: str) -> "subprocess.Popen[bytes]":
        command = self.command(sys.executable, "-m", "moorage.node", *arguments)
        with open(self.folder / f"{arguments[0]}.log", "ab") as output:
            return subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def join(self, url: str, token: str) -> None:
        here = ("--folder", str(self.folder / "etc"), "--ca-file", str(self.certificate))
        # What it says about its engine, it asks of the one that Docker's own programs speak to.
        joining = self.node(
            "join", "--url", url, *here, MOORAGE_JOIN_TOKEN=token, DOCKER_HOST=self.docker_host
        )
        assert joining.wait(60) == 0, (self.folder / "join.log").read_text()
        settings = self.folder / "etc/node.toml"
        settings.write_text(f'{settings.read_text()}docker_host = "{self.docker_host}"\n')
        self.running["tunnel"] = self.node("tunnel", *here)
        self.serve()

    def serve(self) -> None:
        self.running["serve"] = self.node("serve", "--settings", str(self.folder / "etc/node.toml"))

    def end(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    def end_all(self) -> None:
        """What it said is printed: it is gone with the folder."""
        for log in self.folder.glob("*.log"):
            print(f"== {log.name}", log.read_text()[-3000:], sep="\n")
        for name in list(self.running):
            self.end(name)

    def end_what_is_left(self) -> None:
        """What keeps the tunnel open outlives whoever started it."""
        listed = subprocess.run(
            ["ip", "netns", "pids", self.place.name], capture_output=True, text=True, check=True
        )
        for pid in listed.stdout.split():
            if int(pid) != os.getpid():
                os.kill(int(pid), signal.SIGKILL)
        for _ in range(2):  # what it sees of folders, and the file itself
            subprocess.run(["umount", self.folder / "mounts"], check=False, capture_output=True)
