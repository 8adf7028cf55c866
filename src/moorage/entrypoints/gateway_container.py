"""The first process of a gateway's container: `moor serve --role gateway --in-container`.

Purpose: HAProxy outlives the role that tells it what to serve, as it does on a machine; when the container is to end, HAProxy takes no
new connections and finishes the requests that it has.
Invariants: it computes nothing that could fail while requests are served; it reaps what its children leave behind; the container
ends with HAProxy gone and its gateway forgotten, or not before `drain_timeout_s`.
"""

import asyncio
import contextlib
import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from moorage.entrypoints.gateway_pods import pod_gateway_id
from moorage.entrypoints.sockets import in_step_path
from moorage.gateway.agent import stable_gateway_id
from moorage.gateway.repository import forget_gateway
from moorage.kit.clock import system_clock
from moorage.kit.daemon import Daemon
from moorage.kit.database import Database
from moorage.kit.home import prepare_home
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings

log = structlog.get_logger()

_LOOK_EVERY_S = 0.2
_ROLE_ENDS_WITHIN_S = 10.0
_FORGET_WITHIN_S = 5.0
_LONGEST_PAUSE_S = 5.0


def run(settings: Settings) -> None:
    """Until SIGTERM or SIGINT."""
    prepare_home(settings)
    if settings.pod_uid is not None:
        (settings.home / "gateway-id").write_text(pod_gateway_id(settings.pod_uid))
    container = GatewayContainer(settings)
    for stop_signal in (signal.SIGTERM, signal.SIGINT):
        signal.signal(stop_signal, lambda *_: container.stopping.set())
    with _health(settings.health_listen, container):
        container.keep_role()
        container.end()


@dataclass
class GatewayContainer:
    settings: Settings
    stopping: threading.Event = field(default_factory=threading.Event)
    _role: subprocess.Popen[bytes] | None = field(init=False, default=None)
    _haproxy: Daemon = field(init=False)

    def __post_init__(self) -> None:
        self._haproxy = Daemon("haproxy", self.settings.run_dir)

    def is_ready(self) -> bool:
        return (
            not self.stopping.is_set()
            and in_step_path(self.settings).exists()
            and self._haproxy.running_pid() is not None
        )

    def keep_role(self) -> None:
        """Start it again whenever it ends; HAProxy serves on meanwhile."""
        pause_s, start_at_s = 0.2, system_clock.monotonic()
        while not self.stopping.wait(_LOOK_EVERY_S):
            now_s = system_clock.monotonic()
            if self._role is None and now_s >= start_at_s:
                self._role = self._start_role()
            for pid, status in _reaped():
                if self._role is not None and pid == self._role.pid:
                    self._role.returncode = os.waitstatus_to_exitcode(status)
                    log.warning("gateway_role_ended", exit_code=self._role.returncode)
                    self._role, start_at_s = None, now_s + pause_s
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def end(self) -> None:
        """The role first: it would start HAProxy again."""
        if self._role is not None:
            self._role.terminate()
            if not self._gone(self._role.pid, _ROLE_ENDS_WITHIN_S):
                self._role.kill()
                self._gone(self._role.pid, _ROLE_ENDS_WITHIN_S)
        haproxy = self._haproxy.running_pid()
        if haproxy is not None:
            log.info("haproxy_finishes", at_most_s=self.settings.drain_timeout_s)
            os.kill(haproxy, signal.SIGUSR1)
            if not self._gone(haproxy, self.settings.drain_timeout_s):
                asyncio.run(self._haproxy.stop(grace_s=1))
        try:
            asyncio.run(self._forget())
        except Exception as exc:  # noqa: BLE001 - it ends all the same, and a controller forgets it when its Pod is gone
            log.warning("gateway_not_forgotten", error=repr(exc))

    def _start_role(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "moorage.entrypoints.moor", "serve", "--role", "gateway"]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def _gone(self, pid: int, within_s: float) -> bool:
        deadline_s = system_clock.monotonic() + within_s
        while Path(f"/proc/{pid}").exists():
            if system_clock.monotonic() > deadline_s:
                return False
            for reaped, status in _reaped():
                if self._role is not None and reaped == self._role.pid:
                    self._role.returncode = os.waitstatus_to_exitcode(status)
            threading.Event().wait(_LOOK_EVERY_S)
        return True

    async def _forget(self) -> None:
        database = Database(database_dsn(self.settings), pool_size=2)
        try:
            async with asyncio.timeout(_FORGET_WITHIN_S), database.transaction() as session:
                await forget_gateway(session, stable_gateway_id(self.settings.home))
        finally:
            await database.close()


def _reaped() -> list[tuple[int, int]]:
    """Ours, and what they left behind."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(found)
    return ended


@contextlib.contextmanager
def _health(listen: str | None, container: GatewayContainer) -> Iterator[None]:
    if listen is None:
        yield
        return

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            good = {"/livez": lambda: True, "/readyz": container.is_ready}.get(self.path)
            self.send_response(404 if good is None else 200 if good() else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """A kubelet asks every few seconds."""

    host, _, port = listen.rpartition(":")
    server = http.server.ThreadingHTTPServer((host.strip("[]"), int(port)), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
