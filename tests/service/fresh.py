"""A fresh Debian with systemd as its first process, without a network and without anything of this machine."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.packages import install

PACKAGES = (
    "systemd,systemd-sysv,dbus,python3,python3-venv,docker.io,iptables,ca-certificates,curl,iproute2,procps"
)
"""What a server has, and what Moorage's package depends on: nothing can be downloaded later."""
_BOOT = Path(__file__).with_name("boot.sh")
_LIMIT_S = 1200.0
_ENVIRONMENT = {
    "HOME": "/root",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}


def made_archive(folder: Path, release: str) -> Path:
    """A minimal Debian, unless it is there."""
    archive = folder / f"{release}.tar"
    if not archive.exists():
        if shutil.which("mmdebstrap") is None:
            install("mmdebstrap")
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = archive.with_suffix(".unfinished.tar")
        # Debian 12 has docker's command in docker.io.
        packages = PACKAGES if release == "bookworm" else f"{PACKAGES},docker-cli"
        command = ["mmdebstrap", "--variant=minbase", f"--include={packages}", release, str(unfinished)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        unfinished.replace(archive)
    return archive


@dataclass
class Fresh:
    root: Path
    name: str
    boot: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def start(self) -> None:
        """Returns when systemd says that it is up."""
        with (self.root.parent / "boot.log").open("ab") as log:
            self.boot = subprocess.Popen(
                ["bash", "-c", _IN_GROUPS_OF_ITS_OWN, "boot", self.name, str(_BOOT), str(self.root)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until(self._is_up, "systemd is up", 120)

    def run(self, *command: str, check: bool = True, limit_s: float = 600) -> str:
        """Both outputs together."""
        inside = ["nsenter", "--target", str(self._first_pid()), "--all", "env", "-i"]
        inside += [f"{name}={value}" for name, value in _ENVIRONMENT.items()]
        done = subprocess.run(
            [*inside, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=limit_s, check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stdout[-3000:]}"
        return done.stdout

    def succeeds(self, *command: str) -> bool:
        return "yes" in self.run("sh", "-c", '"$@" >/dev/null 2>&1 && echo yes', "sh", *command, check=False)

    def reboot(self) -> None:
        """As an operator does: everything is asked to end first."""
        assert self.boot is not None
        self.run("systemctl", "reboot", check=False)
        self.boot.wait(120)
        self.start()

    def stop(self) -> None:
        if self.boot is not None and self.boot.poll() is None:
            self.boot.kill()
            self.boot.wait(60)
        for hierarchy in _hierarchies():
            # Groups can be removed when what was in them has ended, the innermost first.
            for group in sorted((hierarchy / self.name).rglob("*/"), reverse=True):
                until(lambda group=group: _removed(group), f"{group} is empty", 30)
            until(lambda own=hierarchy / self.name: _removed(own), f"{hierarchy} is empty", 30)

    def _first_pid(self) -> int:
        assert self.boot is not None
        children = self._children()
        assert children, f"the machine is off: {(self.root.parent / 'boot.log').read_text()[-2000:]}"
        return int(children[0])

    def _children(self) -> list[str]:
        assert self.boot is not None
        return Path(f"/proc/{self.boot.pid}/task/{self.boot.pid}/children").read_text().split()

    def _program(self) -> str:
        """Of the first process: before it is systemd, it is the shell that boots."""
        try:
            return Path(f"/proc/{self._first_pid()}/cmdline").read_text().split("\0")[0]
        except FileNotFoundError:
            return ""

    def _is_up(self) -> bool:
        assert self.boot is not None
        assert self.boot.poll() is None, (self.root.parent / "boot.log").read_text()[-2000:]
        if not self._children() or "init" not in self._program():
            return False
        return self.run("systemctl", "is-system-running", check=False).strip() in ("running", "degraded")


@contextmanager
def fresh_debian(archive: Path, folder: Path, name: str) -> Iterator[Fresh]:
    root = folder / "root"
    root.mkdir(parents=True)
    subprocess.run(["tar", "xf", str(archive), "-C", str(root)], check=True, timeout=_LIMIT_S)
    (root / "etc/hostname").write_text("fresh\n")
    (root / "var/log/journal").mkdir(exist_ok=True)
    machine = Fresh(root, f"moorage-proof-{name}-{os.getpid()}")
    try:
        machine.start()
        yield machine
    finally:
        machine.stop()
        shutil.rmtree(folder)


def until(met: object, what: str, limit_s: float) -> None:
    assert callable(met)
    deadline = time.monotonic() + limit_s
    while not met():
        assert time.monotonic() < deadline, f"not within {limit_s:.0f} s: {what}"
        time.sleep(0.2)


def _hierarchies() -> list[Path]:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(where) for _, where, kind, *_ in mounts if kind in ("cgroup", "cgroup2")]


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


_IN_GROUPS_OF_ITS_OWN = r"""
set -eu
for group in $(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts); do
    mkdir -p "$group/$1"
    for file in cpuset.cpus cpuset.mems; do
        [ ! -f "$group/$file" ] || cat "$group/$file" >"$group/$1/$file"
    done
    echo $$ >"$group/$1/cgroup.procs"
done
exec unshare --pid --fork --kill-child --mount --net --uts --ipc --cgroup bash "$2" "$3"
"""
