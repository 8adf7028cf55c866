"""What an upgrade asks of systemd, for a test without it: the real units' commands as processes that are started again.

`systemctl` on the PATH of what runs is a program that asks this. It reads the units as they are on the disk, at each start of one.
"""

import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.service.fresh import until

UNITS = ("moorage.service", "moorage-gateway.service", "moorage-controller.service", "moorage-api.service")
KEEPER = UNITS[0]
_PAUSE_S = 0.2
_GRACE_S = 30.0
_PROGRAM = """\
#!/usr/bin/python3 -ES
import socket
import sys

with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({address!r})
    asked.sendall("\\0".join(sys.argv[1:]).encode())
    asked.shutdown(socket.SHUT_WR)
    code, _, output = b"".join(iter(lambda: asked.recv(4096), b"")).decode().partition(" ")
sys.stdout.write(output)
sys.exit(int(code))
"""


@dataclass
class Supervisor:
    folder: Path
    units: Path
    environment: Mapping[str, str]
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict, init=False)
    wanted: set[str] = field(default_factory=set, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _ends: threading.Event = field(default_factory=threading.Event, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)

    @property
    def path(self) -> str:
        return f"{self.folder / 'bin'}:{self.environment['PATH']}"

    def serve(self) -> None:
        program = self.folder / "bin/systemctl"
        program.parent.mkdir()
        program.write_text(_PROGRAM.format(address=str(self.folder / "systemctl.sock")))
        program.chmod(0o755)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(self.folder / "systemctl.sock"))
        listening.listen(16)
        listening.settimeout(0.2)
        for work in (lambda: self._answer(listening), self._start_again):
            self._threads.append(threading.Thread(target=work))
            self._threads[-1].start()

    def close(self) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def boot(self) -> None:
        """The roles after the keeper, as their units say."""
        self.start(KEEPER)
        told = Path(self._words(KEEPER)["Environment"]["MOORAGE_HOME"]) / "run/roles.env"
        began = time.time()
        until(lambda: told.exists() and told.stat().st_mtime >= began, "the keeper is ready", 120)
        for unit in UNITS[1:]:
            with self._lock:
                # The keeper may have asked for it already.
                if not self.pid(unit):
                    self.start(unit)

    def power_off(self) -> None:
        """What the units started; Postgres and HAProxy are nobody's children, and end at the keeper's stop alone."""
        with self._lock:
            self.wanted.clear()
            for unit in UNITS[::-1]:
                self._end(unit, signal.SIGKILL)

    def stop(self) -> None:
        with self._lock:
            self.wanted.clear()
            for unit in UNITS[::-1]:
                self._end(unit, signal.SIGTERM)

    def start(self, unit: str) -> None:
        with self._lock:
            self.wanted.add(unit)
            words = self._words(unit)
            with open(self.folder / f"{unit}.log", "ab") as log:
                self.processes[unit] = subprocess.Popen(
                    shlex.split(words["ExecStart"]),
                    env={**self.environment, "PATH": self.path, **words["Environment"]},
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                )  # fmt: skip

    def pid(self, unit: str) -> int:
        with self._lock:
            process = self.processes.get(unit)
            return process.pid if process is not None and process.poll() is None else 0

    def log(self, unit: str) -> str:
        return (self.folder / f"{unit}.log").read_text()[-3000:]

    def _words(self, unit: str) -> dict[str, object]:
        environment: dict[str, str] = {}
        words: dict[str, object] = {"Environment": environment}
        for line in (self.units / unit).read_text().splitlines():
            name, _, value = line.partition("=")
            if name == "Environment":
                environment.update(one.split("=", 1) for one in value.split())
            elif name == "EnvironmentFile" and (file := Path(value.removeprefix("-"))).exists():
                pairs = [one.split("=", 1) for one in file.read_text().splitlines()]
                environment.update({key: text.strip('"') for key, text in pairs})
            else:
                words[name] = value
        return words

    def _end(self, unit: str, how: signal.Signals) -> None:
        process = self.processes.get(unit)
        if process is not None and process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start_again(self) -> None:
        while not self._ends.wait(_PAUSE_S):
            with self._lock:
                for unit in self.wanted:
                    if not self.pid(unit):
                        self.start(unit)

    def _answer(self, listening: socket.socket) -> None:
        with listening:
            while not self._ends.is_set():
                try:
                    asking, _ = listening.accept()
                except TimeoutError:
                    continue
                with asking:
                    asking.settimeout(None)
                    with asking.makefile("rb") as sent:
                        said = sent.read().decode().split("\0")
                    asking.sendall(self._do(said).encode())

    def _do(self, said: Sequence[str]) -> str:
        match said:
            case ["daemon-reload"] | ["reset-failed", _]:
                return "0 "
            case ["show", "--property=MainPID", "--value", unit]:
                return f"0 {self.pid(unit)}\n"
            case ["restart", unit]:
                with self._lock:
                    self._end(unit, signal.SIGTERM)
                    self.start(unit)
                return "0 "
            case ["reload-or-restart", unit]:
                assert self._words(unit)["ExecReload"] == "/bin/kill -HUP $MAINPID"
                pid = self.pid(unit)
                if pid:
                    os.kill(pid, signal.SIGHUP)
                return "0 "
            case [("is-enabled" | "is-active"), unit]:
                return "0 " + ("active" if said[0] == "is-active" and self.pid(unit) else "enabled") + "\n"
        return f"1 nobody asks for {said}\n"
