"""A Docker engine of a test's own whose settings can be changed, with Debian's gVisor beside it: what a machine that is lent has."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.packages import install


@dataclass(frozen=True)
class SandboxedEngine:
    host: str
    settings_file: Path
    pid_file: Path


@contextmanager
def sandboxed_engine(place: Sequence[str] = ()) -> Iterator[SandboxedEngine]:
    """`place`: what enters the network that it is to be in, where that is not this one."""
    if shutil.which("runsc") is None:
        install("runsc")
    folder = Path(tempfile.mkdtemp(prefix="moor-lent-", dir="/tmp"))  # A socket's path is short.
    engine = SandboxedEngine(f"unix://{folder}/docker.sock", folder / "daemon.json", folder / "docker.pid")
    engine.settings_file.write_text(json.dumps({"debug": False}))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *place,
                shutil.which("dockerd") or "/usr/sbin/dockerd",
                *("--host", engine.host, "--group", "root", "--bridge", "none"),
                *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
                *("--pidfile", str(engine.pid_file), "--config-file", str(engine.settings_file)),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        _until_it_answers(engine, process)
        yield engine
    finally:
        process.terminate()
        process.wait(timeout=60)
        subprocess.run(["umount", "--recursive", "--lazy", str(folder)], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def _until_it_answers(engine: SandboxedEngine, process: "subprocess.Popen[bytes]") -> None:
    deadline_s = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline_s:
        asked = subprocess.run(["docker", "-H", engine.host, "version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return
        time.sleep(0.2)
    raise AssertionError((engine.settings_file.parent / "log").read_text()[-2000:])


@contextmanager
def owners_network(addresses: tuple[str, ...], ports: tuple[int, ...]) -> Iterator[None]:
    """A network behind this machine, as an owner has one: another machine, with these addresses, of either kind, at whose ports
    somebody answers."""
    name = f"mlan{os.getpid() % 100000}"
    near, far = f"{name}a", f"{name}b"
    answering = (
        "import socket, sys, threading\n"
        "def answer(port):\n"
        "    listening = socket.create_server(('::', port), family=socket.AF_INET6, dualstack_ipv6=True)\n"
        "    while True: listening.accept()[0].close()\n"
        "for port in map(int, sys.argv[1:]): threading.Thread(target=answer, args=(port,)).start()\n"
    )
    _ip("netns", "add", name)
    server: subprocess.Popen[bytes] | None = None
    try:
        _ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        _ip("address", "add", "10.231.88.1/30", "dev", near)
        _ip("address", "add", "fd00:231:88::1/64", "dev", near, "nodad")
        _ip("link", "set", near, "up")
        _ip("-n", name, "address", "add", "10.231.88.2/30", "dev", far)
        _ip("-n", name, "address", "add", "fd00:231:88::2/64", "dev", far, "nodad")
        _ip("-n", name, "link", "set", far, "up")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "route", "add", "default", "via", "10.231.88.1")
        _ip("-n", name, "route", "add", "default", "via", "fd00:231:88::1")
        for address in addresses:
            whole, via = ("128", "fd00:231:88::2") if ":" in address else ("32", "10.231.88.2")
            _ip("-n", name, "address", "add", f"{address}/{whole}", "dev", "lo")
            _ip("route", "add", f"{address}/{whole}", "via", via)
        server = subprocess.Popen(["ip", "netns", "exec", name, "python3", "-c", answering, *map(str, ports)])
        yield
    finally:
        if server is not None:
            server.kill()
            server.wait(timeout=10)
        subprocess.run(["ip", "link", "delete", near], check=False, capture_output=True)
        _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)
